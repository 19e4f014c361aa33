"""Small JSON files that an Edge writes for its own next start.

They lie beside the config, or in the folder that `IOP_STATE_DIR` names where the config's folder is not the service's
to write. They hold no secret, and the Edge runs without them, too.
"""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)

FOLDER_VARIABLE = "IOP_STATE_DIR"


def note_path(config: Path, suffix: str, environ: Mapping[str, str]) -> Path:
    """Where the note `<config><suffix>` lies."""
    folder = environ.get(FOLDER_VARIABLE)
    return (Path(folder) if folder else config.parent) / f"{config.name}{suffix}"


class Note:
    """One such file. `lost`: what the next start cannot do without it, in words."""

    def __init__(self, path: Path, lost: str) -> None:
        self.path = path
        self._lost = lost

    def read(self) -> dict[str, Any] | None:
        """The object in it; None when there is none, or none that can be read."""
        try:
            told = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.broken(error)
            return None
        if isinstance(told, dict):
            return told
        self.broken("it holds no object")
        return None

    def broken(self, why: object) -> None:
        """Say that it is of no use."""
        _log.warning("%s cannot be read (%s); it is written anew", self.path, why)

    def write(self, told: Mapping[str, Any]) -> None:
        """Write it whole or not at all. A folder that cannot be written costs the note, never the service."""
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            fresh.write_text(json.dumps(told) + "\n", encoding="utf-8")
            fresh.replace(self.path)
        except OSError as error:
            _log.warning("cannot write %s (%s): %s", self.path, error, self._lost)
