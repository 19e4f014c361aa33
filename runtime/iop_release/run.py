"""Running a program to its end, with its own words in the error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from iop_release.errors import ReleaseError


def run(command: Sequence[str], *, folder: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run it without input and return its output. Raises `ReleaseError` with the end of what it said."""
    try:
        done = subprocess.run(
            list(command),
            cwd=folder,
            env=dict(os.environ if env is None else env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise ReleaseError(f"{command[0]} is not installed", f"sudo apt-get install -y {command[0]}") from error
    if done.returncode != 0:
        text = (done.stderr or done.stdout).strip()[-3000:]
        raise ReleaseError(f"{' '.join(command[:6])} … failed with exit code {done.returncode}:\n{text}")
    return done.stdout


def git(folder: Path, *arguments: str) -> str:
    """Run git in this folder; variables that point it at another repository (as in a git hook) are dropped."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return run(["git", "-C", str(folder), *arguments], env=env).rstrip()
