"""Whether a port can be had, and who holds it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

from iop_release import processes, windows
from iop_release.errors import ReleaseError
from iop_release.layout import WINDOWS

_LISTEN = "0A"  # state code of a listening socket in /proc/net/tcp


def is_free(host: str, port: int) -> bool:
    """True when `host:port` can be bound now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # on Windows the same option would let two programs have one port; this one refuses that
        option = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
        probe.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def owner(port: int) -> processes.Process | None:
    """The process that listens on this TCP port, None when there is none or this user may not see it."""
    if WINDOWS:
        return _owner_on_windows(port)
    pid = _owner_by_proc(port) if Path("/proc/net/tcp").exists() else _owner_by_lsof(port)
    return processes.read(pid) if pid is not None else None


def _owner_on_windows(port: int) -> processes.Process | None:
    pid = windows.listener(port)
    try:
        return None if pid is None else processes.read(pid) or processes.Process(pid, 0, ())
    except ReleaseError:  # no PowerShell: the pid alone is known
        return None if pid is None else processes.Process(pid, 0, ())


def _owner_by_proc(port: int) -> int | None:
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not sockets:
        return None
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and _holds(folder / "fd", sockets):
            return int(folder.name)
    return None


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _holds(folder: Path, sockets: set[str]) -> bool:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - folders of other users vanish and refuse; names are enough
    except OSError:
        return False
    for name in names:
        try:
            if str((folder / name).readlink()) in sockets:
                return True
        except OSError:
            continue
    return False


def _owner_by_lsof(port: int) -> int | None:
    program = shutil.which("lsof") or "/usr/sbin/lsof"
    try:
        done = subprocess.run(
            [program, "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fp"], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    pids = [line[1:] for line in done.stdout.splitlines() if line.startswith("p")]
    return int(pids[0]) if pids else None
