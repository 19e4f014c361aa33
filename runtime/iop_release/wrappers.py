"""The commands in `build/<env>-runtime/bin/`: each starts the program of the release that is current."""

from __future__ import annotations

import shlex
from pathlib import Path

from iop_release.layout import WINDOWS, HostRoot

COMMANDS = {
    "edge": "iop.commands.edge",
    "iop-node": "iop.commands.node",
    "iop-control": "iop.commands.control",
    "iop-simulator": "iop.commands.simulator",
}
_TEXT = """\
#!/bin/sh
# starts {name} of the release that is current in this folder
current={current}
IOP_RELEASE_ID=$(basename "$(readlink "$current")")
export IOP_RELEASE_ID
exec "$current/venv/bin/python" -I -m {module} "$@"
"""


_TEXT_WINDOWS = """\
@echo off
rem starts {name} of the release that is current in this folder
setlocal
set /p IOP_RELEASE_ID=<"{root}\\current"
"{root}\\releases\\%IOP_RELEASE_ID%\\venv\\Scripts\\python.exe" -I -m {module} %*
"""


def write(root: HostRoot, folder: Path, *, dry_run: bool = False, windows: bool = WINDOWS) -> bool:
    """Write the commands that differ or are missing; False when all are right."""
    current = shlex.quote(str(root.path / "current"))
    changed = False
    for name, module in COMMANDS.items():
        path = folder / (f"{name}.cmd" if windows else name)
        form = _TEXT_WINDOWS if windows else _TEXT
        text = form.format(name=name, current=current, root=root.path, module=module)
        if path.is_file() and path.read_text(encoding="utf-8") == text and path.stat().st_mode & 0o100:
            continue
        changed = True
        if dry_run:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f".{path.name}"
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(path)
    return changed
