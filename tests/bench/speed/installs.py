"""Peers put on this machine outside of the project: by apt as root, or by pip into build/bench/venvs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.speed.peers import VENVS

#: peer -> program and Debian's package of it; the version is the system's
BY_APT = {"nginx": "nginx", "nginx-2hop": "nginx", "haproxy": "haproxy"}
#: peer -> what pip installs
BY_PIP = {
    "litellm": "litellm[proxy]==1.108.7",
    "sglang-router": "sglang-router==0.3.2",
    "vllm-router": "vllm-router==0.1.17",
}
#: seconds that one peer may take to install
PATIENCE = 900


def install(names: Sequence[str], say: Callable[[str], None]) -> dict[str, str]:
    """Install what is missing of these peers; returns why those are left out that could not be."""
    missing = {}
    for name in names:
        try:
            if name in BY_APT:
                _with_apt(BY_APT[name], say)
            elif name in BY_PIP:
                _with_pip(name, BY_PIP[name], say)
        except (OSError, subprocess.SubprocessError, LookupError) as error:
            missing[name] = _reason(error)
            say(f"{name} is left out: {missing[name]}")
    return missing


def _with_apt(program: str, say: Callable[[str], None]) -> None:
    if shutil.which(program):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise LookupError(f"{program} is missing: sudo apt-get install -y {program}")
    say(f"installing {program} with apt")
    # no service of it may begin to serve on this machine
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", program]):
        subprocess.run(["apt-get", *command], check=True, capture_output=True, text=True, timeout=PATIENCE, env=env)


def _with_pip(name: str, wanted: str, say: Callable[[str], None]) -> None:
    """A venv that is whole has a note of what is in it."""
    folder = VENVS / name
    note = folder / "installed"
    if note.exists() and note.read_text(encoding="utf-8") == wanted:
        return
    say(f"installing {wanted} into {folder} (a minute or two, once)")
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted])
    note.write_text(wanted, encoding="utf-8")


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE, cwd=Path("/"))


def _reason(error: Exception) -> str:
    """One line of it."""
    if isinstance(error, subprocess.CalledProcessError):
        lines = (error.stderr or error.stdout or "").strip().splitlines()
        return f"{' '.join(map(str, error.cmd[:4]))} … ended with {error.returncode}: {' '.join(lines[-2:])[-300:]}"
    return str(error)
