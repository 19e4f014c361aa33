"""Folders and files that root makes inside a folder of another account, without following a link that lies in it.

That account could lead root elsewhere: with `shared/state` a link to `/etc`, a change of the owner gives `/etc` away.
Whoever owns a folder can also replace what is in it at any moment, so everything is done by file descriptors.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iop_release.errors import ReleaseError

_HINT = "root follows no link of another account: see who made it (ls -ld), remove it, then run this again"
_FOLDER = getattr(os, "O_DIRECTORY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True)
class Owner:
    """Whose a file is, and its mode."""

    uid: int
    gid: int
    mode: int

    def give(self, descriptor: int) -> None:
        """Give away what is open here."""
        os.fchown(descriptor, self.uid, self.gid)
        os.fchmod(descriptor, self.mode)  # after chown, which clears the set-group bit


def make_folder(path: Path, owner: Owner) -> None:
    """Make the folder, and those above it where they are missing.

    Raises `ReleaseError` for a link in a folder that another account than root can change.
    """
    with _opened(path) as folder:
        owner.give(folder)


def write_file(path: Path, owner: Owner, raw: bytes) -> None:
    """Write a file whole or not at all; its folder is made where it is missing. Raises as `make_folder` does."""
    with _opened(path.parent) as folder:
        fresh = f".{path.name}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600, dir_fd=folder)
        with os.fdopen(file, "wb") as out:
            out.write(raw)
            out.flush()
            owner.give(file)
        os.replace(fresh, path.name, src_dir_fd=folder, dst_dir_fd=folder)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The folder, open; each on the way is made where it is missing."""
    here, walked = os.open(path.anchor, os.O_RDONLY | _FOLDER), Path(path.anchor)
    try:
        for part in path.parts[1:]:
            walked = walked / part
            below = _step(here, part, walked)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _step(folder: int, part: str, path: Path) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, 0o755, dir_fd=folder)
    try:
        return os.open(part, os.O_RDONLY | _FOLDER | (0 if _is_roots(folder) else _NO_LINK), dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        is_link = stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode)
        raise ReleaseError(f"{path} is {'a symbolic link' if is_link else 'no folder'}", _HINT) from error


def _is_roots(folder: int) -> bool:
    """Nobody but root can change what lies in it, so a link there is meant."""
    facts = os.fstat(folder)
    return facts.st_uid == 0 and not facts.st_mode & 0o022
