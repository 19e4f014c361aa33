"""What must hold on a host before anything is changed: Python, its venv module, the folder, disk, ports, the clock."""

from __future__ import annotations

import getpass
import importlib.util
import os
import platform
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from iop_release import activate, ports, processes
from iop_release.layout import HostRoot
from iop_release.services.definitions import Host
from iop_release.stage import OLDEST_PYTHON
from iop_release.targets import MINORS, Target

NEEDED_BYTES = 600 << 20  # measured: a loopback set of three hosts, build checkout and wheelhouse take about 350 MiB
OLDEST_GLIBC = (2, 28)  # what the locked wheels of Linux are built for
CLOCK_MAY_DIFFER_S = 60  # certificates begin some minutes in the past, and logs of hosts are read together
EARLIER_SETUP = "mac-mlx-vllm-node"  # the label by which the set-up that iop replaces is known


@dataclass(frozen=True)
class Finding:
    """Something in the way, and what to do about it."""

    code: str
    message: str
    hint: str


def facts(home: Path) -> dict[str, object]:
    """What a deploy has to know of this host: platform and Python (`target` is both), space, clock, account."""
    target = Target.here()
    return {
        "platform": target.platform,
        "python": platform.python_version(),
        "python_tag": f"py{target.minor}",
        "target": f"{target.platform}:{target.minor}",
        "free_bytes": shutil.disk_usage(_nearest(home)).free,
        "time": time.time(),
        "user": _user(),
    }


def warnings(now: float | None) -> list[dict[str, str]]:
    """What is odd but stops nothing: a clock that differs from `now`, the time on the machine that deploys."""
    off = 0.0 if now is None else time.time() - now
    if abs(off) <= CLOCK_MAY_DIFFER_S:
        return []
    word = "ahead of" if off > 0 else "behind"
    text = f"this host's clock is {abs(off):.0f} seconds {word} that of the machine that deploys"
    return [asdict(Finding("clock", text, "let it be set by the network (timedatectl set-ntp true): TLS needs it"))]


def check(home: Path, wanted_ports: list[tuple[str, int]]) -> list[Finding]:
    """All findings for this host. Reads only; `wanted_ports` are (listen host, port)."""
    findings = [*_python(), *_libc(), *_folder(home), *_disk(home)]
    for host, port in wanted_ports:
        findings += _port(home, host, port)
    return findings


def _python() -> list[Finding]:
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if sys.version_info[:2] < OLDEST_PYTHON:
        here = ".".join(map(str, sys.version_info[:3]))
        return [Finding("python", f"{sys.executable} is Python {here}; iop needs {oldest} or newer", _PYTHON_HINT)]
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if minor not in MINORS:
        text = f"{sys.executable} is Python {minor}, for which iop has no locked wheels"
        return [Finding("python", text, f"use one of {', '.join(MINORS)}: `python` in the host's connection.yml")]
    if importlib.util.find_spec("venv") is None:
        return [Finding("venv", f"{sys.executable} has no venv module", "sudo apt-get install -y python3-venv")]
    return []


def _libc() -> list[Finding]:
    name, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if name != "glibc" or numbers >= OLDEST_GLIBC:
        return []
    oldest = ".".join(map(str, OLDEST_GLIBC))
    return [
        Finding("libc", f"this system has glibc {version}; iop needs {oldest}", "use a newer release of the system")
    ]


def _folder(home: Path) -> list[Finding]:
    there = _nearest(home)
    if os.access(there, os.W_OK | os.X_OK):
        return []
    what = f"{home} cannot be written" if there == home.absolute() else f"{home} cannot be made in {there}"
    hint = "prepare the host: ansible-playbook playbooks/bootstrap.yml with this inventory (-i) and --ask-become-pass"
    return [Finding("folder", f"{what} by {_user()}", hint)]


def _disk(home: Path) -> list[Finding]:
    there = _nearest(home)
    free = shutil.disk_usage(there).free
    if free >= NEEDED_BYTES:
        return []
    text = f"{there} has {free >> 20} MiB free; a deploy needs {NEEDED_BYTES >> 20} MiB"
    return [Finding("disk", text, "free some space there, then deploy again (a loopback set moves with its checkout)")]


def _port(home: Path, host: str, port: int) -> list[Finding]:
    if ports.is_free(host, port):
        return []
    owner = ports.owner(port)
    if owner is None:
        if ports.is_free(host, port) or _is_ours(home, port):  # it ended in between, or runs as the services' account
            return []
        text = f"port {port} is taken by a process that this user may not see"
        return [
            Finding("port", text, f"sudo lsof -nP -iTCP:{port} -sTCP:LISTEN   # or: sudo ss -ltnp 'sport = :{port}'")
        ]
    if processes.services_under(home, [owner]):
        return []
    whose = f" of {owner.user}" if owner.user else ""
    text = f"port {port} is taken by pid {owner.pid}{whose}: {owner.shown}; it is not ours and was left alone"
    if any(EARLIER_SETUP in word for word in owner.argv):
        return [Finding("earlier-setup", f"{text}. It is the earlier set-up", "see docs/how-to/migrate.md")]
    hint = f"stop it (kill {owner.pid}) or give this environment other ports, then run the deploy again"
    return [Finding("port", text, hint)]


def _is_ours(home: Path, port: int) -> bool:
    """Whether a service of this host has the port: by its record and command line, or by the definitions of sockets."""
    root = HostRoot(home)
    defined = Host.stored(root.path)
    sockets = defined.addresses.values() if defined is not None and defined.manager == "systemd" else ()
    return port in {int(one.rpartition(":")[2]) for one in sockets} or port in activate.ports_of_the_living(root)


def _nearest(home: Path) -> Path:
    """The folder itself, or the nearest one above that exists."""
    return next(folder for folder in (home.absolute(), *home.absolute().parents) if folder.is_dir())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # an account without a name
        return f"uid {os.getuid()}"


_PYTHON_HINT = "sudo apt-get install -y python3 python3-venv   # or name a newer one: `python` in its connection.yml"
