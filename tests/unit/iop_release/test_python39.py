"""iop_release runs on hosts before anything is installed: old syntax, standard library only."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import iop_release

FOLDER = Path(iop_release.__file__).parent


def test_the_helper_parses_on_python_3_9() -> None:
    """No module needs newer syntax, and annotations are never evaluated."""
    for path in FOLDER.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        ast.parse(text, str(path), feature_version=(3, 9))
        if " | None" in text:
            assert "from __future__ import annotations" in text, path


def test_the_helper_starts_without_the_modules_of_posix() -> None:
    """As on Windows: those that are not there are not imported, the pieces that need them aside."""
    program = (
        "import getpass, shutil, socket, subprocess, sys, tempfile, zipfile\n"
        "for name in ('fcntl', 'grp', 'pwd', 'resource', 'termios'): sys.modules[name] = None\n"
        "from iop_release.cli import main\n"
        "main(['--help'])"
    )
    env = {**os.environ, "PYTHONPATH": str(FOLDER.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "preflight" in done.stdout
