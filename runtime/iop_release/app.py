"""This package as one file that any Python from 3.9 on can run: what goes to a host before anything is installed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from iop_release import bundle, put

_PACKAGE = Path(__file__).resolve().parent
_KINDS = ("*.py", "templates/*")


def packed() -> bytes:
    """The package as a zip that Python runs; the same source gives the same bytes.

    Works from a checkout or an installed package only.
    """
    content: dict[str, Path | bytes] = {
        f"iop_release/{path.relative_to(_PACKAGE).as_posix()}": path.read_bytes().replace(b"\r\n", b"\n")
        for kind in _KINDS
        for path in _PACKAGE.rglob(kind)
        if path.is_file()
    }
    content["__main__.py"] = content["iop_release/__main__.py"]
    return bundle.packed(content)


def write(folder: Path) -> tuple[Path, bool]:
    """Write `iop_release-<sha12>.pyz` into this folder, named by its content; see `packed`.

    Returns its path and whether it was missing or damaged.
    """
    data = packed()
    path = folder / f"iop_release-{hashlib.sha256(data).hexdigest()[:12]}.pyz"
    return path, bool(put.put([path], data))
