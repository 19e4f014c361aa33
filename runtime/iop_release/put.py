"""Write a file of a host, only when it differs, and whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

OWNER_ONLY = 0o600


def put(paths: list[Path], content: bytes, *, mode: int = OWNER_ONLY, dry_run: bool = False) -> list[str]:
    """Give each of the files this content and mode; returns those that differed.

    Folders above are made, for the owner alone. A file whose mode differs counts as different. A file has its final
    mode before it has its content. On Windows, which has no modes, the folder's permissions count.
    """
    changed = [path for path in paths if not _is_so(path, content, mode)]
    for path in changed if not dry_run else ():
        _make_folders(path.parent)
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb") as file:
            fresh.chmod(mode)  # whatever the umask
            file.write(content)
        fresh.replace(path)
    return [str(path) for path in changed]


def _make_folders(folder: Path) -> None:
    """Each that is missing, for the owner alone; `mkdir(parents=True)` would leave those above to the umask."""
    for one in (*reversed(folder.parents), folder):
        if not one.is_dir():
            one.mkdir(mode=0o700, exist_ok=True)


def differences(paths: list[Path], content: bytes, *, mode: int = OWNER_ONLY) -> list[dict[str, str]]:
    """The text before and after of each file that `put` would write, in the form of Ansible's --diff."""
    return [
        {
            "before": path.read_bytes().decode("utf-8", "replace") if path.is_file() else "",
            "after": content.decode("utf-8", "replace"),
            "before_header": str(path),
            "after_header": str(path),
        }
        for path in paths
        if not _is_so(path, content, mode)
    ]


def _is_so(path: Path, content: bytes, mode: int) -> bool:
    try:
        return path.read_bytes() == content and (os.name == "nt" or path.stat().st_mode & 0o777 == mode)
    except OSError:
        return False
