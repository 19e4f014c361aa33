"""Writing beside and over a config file: never half a file, never another's work."""

import contextlib
import os
from pathlib import Path


class ChangedMeanwhile(Exception):
    """The file is not what was read from it any more; nothing was written."""


def replace_bytes(path: Path, before: bytes, after: bytes) -> None:
    """Replace the contents of `path` in one step; a link stays a link, mode (and owner, where allowed) stay.

    Raises ChangedMeanwhile when the file does not hold `before`, OSError when it cannot be written.
    """
    real = path.resolve()
    about = real.stat()
    fresh = real.with_name(f".{real.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        fresh.chmod(about.st_mode & 0o7777)
        if hasattr(os, "chown"):
            with contextlib.suppress(PermissionError):  # only root may give files away
                os.chown(fresh, about.st_uid, about.st_gid)
        if real.read_bytes() != before:
            raise ChangedMeanwhile(f"{path} was changed by somebody else meanwhile; nothing was written")
        fresh.replace(real)
    finally:
        fresh.unlink(missing_ok=True)


def write_secret(path: Path, secret: str) -> None:
    """Write one line that only this user can read. Raises FileExistsError rather than write over a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secret + "\n")
