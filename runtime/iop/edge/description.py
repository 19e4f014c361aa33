"""The OpenAPI 3.1 documents that the Edge serves of itself at `GET /openapi.json`, one for each of its HTTP ports.

They are kept as files beside this module, so that they can be read and reviewed as what they are; what both ports share
(errors, headers, requests that engines answer) stands once, in `shared.json`.
"""

import json
from importlib import resources
from typing import Any, Literal

from iop import __version__

Port = Literal["openai", "admin"]


def description(port: Port) -> bytes:
    """Return the JSON of a port's document, with the version of this code."""
    document, shared = _read(port), _read("shared")
    own = document["components"]
    document["components"] = own | {kind: own.get(kind, {}) | entries for kind, entries in shared.items()}
    document["info"]["version"] = __version__
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _read(name: str) -> dict[str, Any]:
    file = resources.files("iop.edge") / "openapi" / f"{name}.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found
