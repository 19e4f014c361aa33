"""What stands behind the providers of an environment, and what a report may claim of it."""

import json
from pathlib import Path
from typing import Literal, TypeGuard, get_args

EngineKind = Literal["simulator", "llama", "external", "own"]
KINDS: tuple[EngineKind, ...] = get_args(EngineKind)

DEPLOYED_FILE = "engines.json"  # in the environment's build folder, written by each deploy
_LOOPBACK: dict[EngineKind, str] = {
    "simulator": "LOOPBACK, SIMULATED ENGINES: proves the software, not your machines",
    "llama": "LOOPBACK, ONE MACHINE: real llama.cpp engines, not your machines",
    "external": "LOOPBACK, ONE MACHINE: your own engine behind all providers, not your machines",
    "own": "LOOPBACK, ONE MACHINE: your own engines on their ports, not your machines",
}
_REMOTE: dict[EngineKind, str] = {
    "simulator": "SIMULATED ENGINES: proves the deployment, not your engines",
    "llama": "llama.cpp with a small model: proves the deployment, not your engines",
    "external": "ONE ENGINE behind all providers: proves the deployment, not your engines",
    "own": "",
}


def loopback_banner(kind: EngineKind) -> str:
    """The first line of everything that reports on an environment whose hosts are all this machine."""
    return _LOOPBACK[kind]


def remote_banner(kind: EngineKind) -> str:
    """The same for real hosts; empty where their own engines are behind the providers."""
    return _REMOTE[kind]


def deployed_kind(home: Path) -> EngineKind | None:
    """What the last deploy put behind the providers; None before the first one.

    A deploy may choose otherwise than the inventory (`make dev ENGINE=llama`), and fab and smoke must not then call
    real engines simulated, or the reverse. An unreadable file counts as none: the next deploy writes it anew.
    """
    try:
        found = json.loads((home / DEPLOYED_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    kind = found.get("kind") if isinstance(found, dict) else None
    return kind if _is_kind(kind) else None


def _is_kind(value: object) -> TypeGuard[EngineKind]:
    return value in KINDS
