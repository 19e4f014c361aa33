"""Write a file of a host, only when it differs, and whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def put(paths: list[Path], content: bytes, *, dry_run: bool = False) -> list[str]:
    """Give each of the files this content, readable by the owner alone; returns those that differed.

    Folders above are made. A file whose permissions differ counts as different.
    """
    changed = [path for path in paths if not _is_so(path, content)]
    for path in changed if not dry_run else ():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        fresh.chmod(0o600)  # whatever the umask
        fresh.replace(path)
    return [str(path) for path in changed]


def differences(paths: list[Path], content: bytes) -> list[dict[str, str]]:
    """The text before and after of each file that `put` would write, in the form of Ansible's --diff."""
    return [
        {
            "before": path.read_bytes().decode("utf-8", "replace") if path.is_file() else "",
            "after": content.decode("utf-8", "replace"),
            "before_header": str(path),
            "after_header": str(path),
        }
        for path in paths
        if not _is_so(path, content)
    ]


def _is_so(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content and path.stat().st_mode & 0o777 == 0o600
    except OSError:
        return False
