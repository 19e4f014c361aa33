"""From the names of services to those of their definitions: `gx10.node` is the unit, label or task `iop-node`."""

from __future__ import annotations

import re

from iop_release.errors import ReleaseError

EDGE = "iop-edge"
LISTENERS = ("openai", "nodes", "admin")  # the Edge's listeners, by the names it knows them by
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99})\.(edge|control|node|engine)")


def unit(name: str) -> str:
    """The name of the service's definition on its host. Raises `ReleaseError` for a name of another form."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ReleaseError(f"no service is called {name!r}: <host>.edge, .control, .node or <provider>.engine")
    owner, kind = found.groups()
    return f"iop-engine-{owner}" if kind == "engine" else f"iop-{kind}"


def kind(name: str) -> str:
    """`edge`, `control`, `node` or `engine`."""
    unit(name)
    return name.rpartition(".")[2]


def of(unit: str) -> str | None:
    """A service that has this definition; None when it is none of ours. `host` stands for any host."""
    if unit.startswith("iop-engine-"):
        name = f"{unit[len('iop-engine-') :]}.engine"
    else:
        name = f"host.{unit[len('iop-') :]}" if unit.startswith("iop-") else ""
    return name if _NAME.fullmatch(name) and not name.startswith("host.engine") else None
