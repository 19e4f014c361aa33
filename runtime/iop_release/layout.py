"""The folder of one host: `releases/<id>/ current previous incoming/ shared/{run,logs,state,tokens}`."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from iop_release.errors import ReleaseError

SHARED = ("run", "logs", "state", "tokens")
COMPLETE = ".complete"  # written last by `stage`: a release folder without it is half made and is made again
WINDOWS = os.name == "nt"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


class HostRoot:
    """Paths and pointers of one host's folder. Nothing is created before `prepare`.

    `current` and `previous` are symbolic links; where an account may not make links (Windows), small files that hold
    the release's id.
    """

    def __init__(self, path: Path, *, links: bool = not WINDOWS) -> None:
        self.path = path.absolute()
        self.releases = self.path / "releases"
        self.incoming = self.path / "incoming"
        self.shared = self.path / "shared"
        self._links = links

    def prepare(self, group: str | None = None) -> None:
        """Create the folders that are missing, readable by their owner only, or by this group as well."""
        for folder in (self.path, self.releases, self.shared, *(self.shared / name for name in SHARED)):
            if folder.is_dir():
                continue
            folder.mkdir(mode=0o700, parents=True)
            if group is not None and folder.name != "tokens":
                share(folder, group)

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
        path = self.path / name
        if self._links:
            return path.readlink().name if path.is_symlink() else None
        try:
            return path.read_text(encoding="ascii").strip() or None
        except OSError:
            return None

    def point(self, name: str, release_id: str) -> None:
        """Let `current` or `previous` name this release, in one atomic step."""
        self.release(release_id)
        fresh = self.path / f".{name}.{os.getpid()}"
        fresh.unlink(missing_ok=True)
        if self._links:
            fresh.symlink_to(Path("releases") / release_id, target_is_directory=True)
        else:
            fresh.write_text(f"{release_id}\n", encoding="ascii")
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


def venv_python(venv: Path, *, windows: bool = WINDOWS) -> Path:
    """The interpreter of a venv."""
    return venv / "Scripts" / "python.exe" if windows else venv / "bin" / "python"


def share(folder: Path, group: str) -> None:
    """Let this group read the folder and all in it. Raises `ReleaseError` when this account may not give it away."""
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink():
            continue
        try:
            shutil.chown(path, group=group)
            mode = path.stat().st_mode
            path.chmod((mode & 0o2700) | (mode & 0o500) >> 3)  # a folder may hand its group down
        except (LookupError, PermissionError) as error:
            raise ReleaseError(
                f"{path} cannot be given to the group {group}: {error}",
                "make the group and put the deploying account into it: ansible-playbook playbooks/bootstrap.yml",
            ) from error
