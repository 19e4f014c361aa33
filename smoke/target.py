"""Where the system is: the inventory of an environment, and what it declares."""

import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from iop.config.inventory import Inventory, InventoryError, load_inventory
from smoke.history import Environment, now
from smoke.reach import where


class TargetError(Exception):
    """The environment cannot be found; the text names the option that helps."""


def find(target: str | None, folder: Path | None, checkout: Path) -> Inventory:
    """Load `inventory/<target>` of the checkout, or the inventory folder given. Raises TargetError."""
    if folder is not None:
        return _load(folder.name, folder.resolve().parent.parent, f"--inventory {folder}")
    if target is None:
        raise TargetError(f"--target is missing: one of {', '.join(known(checkout)) or 'none'} (see inventory/)")
    if target not in known(checkout):
        raise TargetError(f"--target {target}: no such environment (known: {', '.join(known(checkout))})")
    return _load(target, checkout, f"--target {target}")


def known(checkout: Path) -> list[str]:
    """Names of the environments of a checkout."""
    return sorted(entry.parent.name for entry in (checkout / "inventory").glob("*/hosts.yml"))


def environment(inventory: Inventory, arguments: Sequence[str] = ()) -> Environment:
    """Return what the inventory declares, as a record; `arguments` are those that pytest was started with."""
    return Environment(
        at=now(),
        env=inventory.env,
        banner=inventory.banner,
        edge_id=inventory.edge_id,
        capacities={provider.id: provider.capacity for provider in inventory.providers.values()},
        nodes={host.node_id: tuple(provider.id for provider in host.providers) for host in inventory.hosts},
        cli_nodes=tuple(host.node_id for host in inventory.hosts if host.cli_targets),
        models=tuple(model.id for model in inventory.models),
        smoke_model=inventory.smoke_model,
        cli_model=next((model.id for model in inventory.models if model.direct), None),
        hosts=where(inventory),
        command=shlex.join(["pytest", *arguments]),
        runner=", ".join((f"Python {platform.python_version()}", f"pytest {version('pytest')}", platform.platform())),
    )


def _load(name: str, root: Path, knob: str) -> Inventory:
    if not (root / "inventory" / name).is_dir():
        raise TargetError(f"{knob}: no such folder (it must be …/inventory/<name>)")
    try:
        return load_inventory(name, root)
    except InventoryError as error:
        raise TargetError(f"{knob}: {error}") from error
