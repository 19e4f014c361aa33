"""The folder that everything secret of an environment lies in: 0700, its files 0600, written whole or not at all."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iop_trust.errors import TrustError

#: files that may be read by everyone
PUBLIC = frozenset({"ca.pem", "edge.pem"})
LOCK = ".lock"


class Store:
    """Files by name. A dry run keeps what it would write in memory, reads it back from there, and touches no file."""

    def __init__(self, path: Path, *, dry_run: bool = False) -> None:
        self.path = path.absolute()
        self.dry_run = dry_run
        self._unwritten: dict[str, bytes] = {}
        self.written: list[str] = []  # in the order of writing

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the folder's lock, after making the folder and looking at its permissions. Raises TrustError."""
        if self.dry_run:
            self._look()
            yield
            return
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._look()
            with os.fdopen(os.open(self.path / LOCK, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise TrustError(f"cannot use {self.path}: {error.strerror or error}") from error

    def read(self, name: str) -> bytes | None:
        """The content of a file, None when there is none. Raises TrustError when it cannot be read."""
        if name in self._unwritten:
            return self._unwritten[name]
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TrustError(f"cannot read {self.path / name}: {error.strerror or error}") from error

    def write(self, name: str, content: bytes) -> None:
        """Replace a file in one step, so that neither an interruption nor a full disk leaves half of it."""
        self.written.append(name)
        if self.dry_run:
            self._unwritten[name] = content
            return
        path = self.path / name
        fresh = self.path / f".{name}.new"
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def _look(self) -> None:
        """Refuse what others can reach: who could read a secret may have it, and who can write can replace it."""
        if not self.path.is_dir():
            return
        self._refuse_open(self.path, "chmod 700 it")
        for path in sorted(self.path.iterdir()):
            if path.name not in PUBLIC and path.name != LOCK:
                hint = "chmod 600 it; if somebody may have read it, make a new one: python -m iop_trust rotate --help"
                self._refuse_open(path, hint)

    def _refuse_open(self, path: Path, hint: str) -> None:
        about = path.stat()
        if about.st_uid != os.geteuid():
            raise TrustError(
                f"{path} belongs to another user (uid {about.st_uid})", "run this as that user, or chown it"
            )
        mode = stat.S_IMODE(about.st_mode)
        if mode & 0o077:
            raise TrustError(f"other users of this machine can reach {path} (mode {mode:04o})", hint)
