"""What a node process leaves in its state folder for `iop-node doctor`: what it runs, as whom, and where it answers."""

import contextlib
import logging
import os
from pathlib import Path

import msgspec

from iop.link.messages import NodeRuntimeConfig

_log = logging.getLogger(__name__)


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """The last config of a node process, its status port, and its environment as far as programs depend on it."""

    status: str
    runtime: NodeRuntimeConfig
    user: str
    environment: dict[str, str] = {}


class Memory:
    """The file of one node id. It holds the agents' variables, so only its owner may read it."""

    def __init__(self, folder: Path, node_id: str) -> None:
        self._path = folder / f"{node_id}.last.json"

    def keep(self, what: Remembered) -> None:
        """Write it whole before it has its name; a folder that cannot be written is told in the log only."""
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.encode(what))
            fresh.replace(self._path)
        except OSError as error:
            _log.warning("what runs here cannot be kept for `iop-node doctor`: %s", error)

    def read(self) -> Remembered | None:
        """Return what was kept last, None where there is nothing that can be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Remembered)
        except (OSError, msgspec.DecodeError):
            return None
