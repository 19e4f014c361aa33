"""What must hold on a host before anything is changed: Python, its venv module, disk, ports."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from iop_release import ports, processes
from iop_release.stage import OLDEST_PYTHON

NEEDED_BYTES = 600 << 20  # measured: a loopback set of three hosts, build checkout and wheelhouse take about 350 MiB
EARLIER_SETUP = "mac-mlx-vllm-node"  # the label by which the set-up that iop replaces is known


@dataclass(frozen=True)
class Finding:
    """Something in the way, and what to do about it."""

    code: str
    message: str
    hint: str


def check(home: Path, wanted_ports: list[tuple[str, int]]) -> list[Finding]:
    """All findings for this host. Reads only; `wanted_ports` are (listen host, port)."""
    findings = [*_python(), *_disk(home)]
    for host, port in wanted_ports:
        findings += _port(home, host, port)
    return findings


def _python() -> list[Finding]:
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if sys.version_info[:2] < OLDEST_PYTHON:
        here = ".".join(map(str, sys.version_info[:3]))
        return [Finding("python", f"{sys.executable} is Python {here}; iop needs {oldest} or newer", _PYTHON_HINT)]
    if importlib.util.find_spec("venv") is None:
        return [Finding("venv", f"{sys.executable} has no venv module", "sudo apt-get install -y python3-venv")]
    return []


def _disk(home: Path) -> list[Finding]:
    there = next(folder for folder in (home, *home.parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    if free >= NEEDED_BYTES:
        return []
    text = f"{there} has {free >> 20} MiB free; a deploy needs {NEEDED_BYTES >> 20} MiB"
    return [Finding("disk", text, "free some space, or move the checkout")]


def _port(home: Path, host: str, port: int) -> list[Finding]:
    if ports.is_free(host, port):
        return []
    owner = ports.owner(port)
    if owner is None:
        if ports.is_free(host, port):  # it ended in between
            return []
        text = f"port {port} is taken by a process that this user may not see"
        return [
            Finding("port", text, f"sudo lsof -nP -iTCP:{port} -sTCP:LISTEN   # or: sudo ss -ltnp 'sport = :{port}'")
        ]
    if processes.services_under(home, [owner]):
        return []
    text = f"port {port} is taken by pid {owner.pid}: {owner.command}; it is not ours and was left alone"
    if EARLIER_SETUP in owner.command:
        return [Finding("earlier-setup", f"{text}. It is the earlier set-up", "see docs/how-to/migrate.md")]
    hint = f"stop it (kill {owner.pid}) or give this environment other ports, then run the deploy again"
    return [Finding("port", text, hint)]


_PYTHON_HINT = "sudo apt-get install -y python3 python3-venv   # or let ansible_python_interpreter name a newer one"
