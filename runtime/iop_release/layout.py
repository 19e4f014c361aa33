"""The folder of one host: `releases/<id>/ current previous shared/{run,logs,state,tokens}`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from iop_release.errors import ReleaseError

SHARED = ("run", "logs", "state", "tokens")
COMPLETE = ".complete"  # written last by `stage`: a release folder without it is half made and is made again
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


class HostRoot:
    """Paths and pointers of one host's folder. Nothing is created before `prepare`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.releases = self.path / "releases"
        self.shared = self.path / "shared"

    def prepare(self) -> None:
        """Create the folders, readable by their owner only."""
        for folder in (self.path, self.releases, self.shared, *(self.shared / name for name in SHARED)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def release(self, release_id: str) -> Path:
        """The folder of a release. Raises `ReleaseError` when the id could leave `releases/`."""
        if not _ID.fullmatch(release_id):
            raise ReleaseError(f"not a release id: {release_id!r}")
        return self.releases / release_id

    def staged(self) -> list[str]:
        """Ids of the complete releases, oldest first."""
        if not self.releases.is_dir():
            return []
        marks = [folder / COMPLETE for folder in self.releases.iterdir()]
        ready = [mark for mark in marks if mark.is_file()]
        return [mark.parent.name for mark in sorted(ready, key=lambda mark: mark.stat().st_mtime_ns)]

    def is_staged(self, release_id: str) -> bool:
        """True when the release is there and complete."""
        return (self.release(release_id) / COMPLETE).is_file()

    def pointer(self, name: str) -> str | None:
        """The release id that `current` or `previous` names, None when there is none."""
        link = self.path / name
        return link.readlink().name if link.is_symlink() else None

    def point(self, name: str, release_id: str) -> None:
        """Let `current` or `previous` name this release, in one atomic step."""
        self.release(release_id)
        fresh = self.path / f".{name}.{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(Path("releases") / release_id, target_is_directory=True)
        fresh.replace(self.path / name)

    def switch(self, release_id: str) -> bool:
        """Make this release `current` and the one before `previous`; False when it already is."""
        before = self.pointer("current")
        if before == release_id:
            return False
        if before is not None and self.is_staged(before):
            self.point("previous", before)
        self.point("current", release_id)
        return True
