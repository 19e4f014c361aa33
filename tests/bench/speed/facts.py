"""What a run was made on: the machine, the checkout, the version of each peer."""

import platform
import re
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tests.bench.speed.installs import BY_APT, BY_PIP
from tests.bench.speed.tools import ROOT


def machine() -> dict[str, str]:
    """One line a fact."""
    gigabytes = int(_first("/proc/meminfo", r"MemTotal:\s+(\d+)") or 0) / 1024**2
    cores = len(re.findall(r"^processor\s*:", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE))
    processor = _first("/proc/cpuinfo", r"model name\s*: (.+)") or platform.machine()
    system = _first("/etc/os-release", r'PRETTY_NAME="?([^"\n]+)') or "Linux"
    return {
        "processor": f"{processor}, {cores} cores",
        "memory": f"{gigabytes:.1f} GB",
        "system": f"{system}, {platform.release()}",
        "commit": _commit(),
    }


def versions(peers: Sequence[str]) -> dict[str, str]:
    """Of each peer that has one."""
    found = {}
    for peer in peers:
        if peer in BY_APT:
            found[peer] = _said([BY_APT[peer], "-v"])
        elif peer in BY_PIP:
            found[peer] = BY_PIP[peer].split("==")[1]
        elif peer.startswith("iop"):
            found[peer] = f"this checkout, Python {platform.python_version()}, {_libraries()}"
    return found


def _libraries() -> str:
    return ", ".join(f"{name} {version(name)}" for name in ("uvloop", "aiohttp", "msgspec"))


def _commit() -> str:
    short = _said(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"])
    changed = _said(["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"])
    return f"{short} with changes that are not committed" if changed else short


def _said(command: Sequence[str]) -> str:
    """The version in what a program says first, or all of its first line; empty when there is no such program."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    line = (done.stdout.strip() or done.stderr.strip()).split("\n", 1)[0]
    match = re.search(r"(?:nginx/|version )(\d[\w.]*)", line)
    return match[1] if match else line


def _first(path: str, pattern: str) -> str | None:
    try:
        match = re.search(pattern, Path(path).read_text(encoding="utf-8"))
    except OSError:
        return None
    return match[1].strip() if match else None
