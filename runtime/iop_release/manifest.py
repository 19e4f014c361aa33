"""`dist/<release>/manifest.json`: what a release is made of, with the hash of each file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from iop_release.errors import ReleaseError

NAME = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """One built release. `files` maps paths relative to the dist folder to their sha256."""

    release_id: str
    commit: str
    version: str
    wheel: str
    lock: str
    lock_sha256: str
    wheelhouse: str
    files: dict[str, str]

    @staticmethod
    def load(folder: Path) -> Manifest:
        """Read the manifest of a dist folder. Raises `ReleaseError` when it is missing or unreadable."""
        try:
            return Manifest(**json.loads((folder / NAME).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise ReleaseError(f"no usable {NAME} in {folder}: {error}") from error

    def save(self, folder: Path) -> None:
        """Write the manifest into its dist folder."""
        text = json.dumps(asdict(self), indent=2, sort_keys=True)
        (folder / NAME).write_text(text + "\n", encoding="utf-8")

    def verify(self, folder: Path) -> None:
        """Compare every file with its hash. Raises `ReleaseError` naming the first that differs."""
        for name, wanted in self.files.items():
            path = folder / name
            if not path.is_file():
                raise ReleaseError(f"{path} is missing", "delete its folder: the next deploy builds it again")
            if sha256(path) != wanted:
                raise ReleaseError(f"{path} is not the file that was built", "delete its folder and deploy again")


def sha256(path: Path) -> str:
    """The sha256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
