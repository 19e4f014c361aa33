"""Who runs here: the process table, ours told from strangers, and ending one process by its pid."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from iop_release import windows

MARK = "iop-release="
HOLDER = "iop-holder="  # followed by the folder whose service manager started that holder of sockets
_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One process as the system shows it."""

    pid: int
    parent: int
    argv: tuple[str, ...]

    @property
    def shown(self) -> str:
        """What a person may see of the command line, which can hold a secret: the program, its script or module."""
        return _shown(self.argv)

    @property
    def user(self) -> str:
        """The name of the account that it runs as, or its number; empty where that cannot be seen."""
        if os.name == "nt":
            return ""
        try:
            number = (_PROC / str(self.pid)).stat().st_uid
        except OSError:
            done = subprocess.run(
                ["ps", "-o", "user=", "-p", str(self.pid)],  # noqa: S607 - ps stands elsewhere on each system
                capture_output=True,
                text=True,
                check=False,
            )
            return done.stdout.strip()
        return _account(number)


_SCRIPT = re.compile(r"^(?!-)(?:[^=]*[/\\]bin[/\\][\w.-]+|(?:[^=]*[/\\])?[\w.-]+\.(?:py|sh|js|pl|rb|jar))$")


def _shown(argv: tuple[str, ...]) -> str:
    if not argv or not argv[0].strip():
        return "(not to be seen)"
    program = _name(argv[0].split(" -")[0]).split()[0]  # a title that a program gave itself is one word with blanks
    module = _module(argv) if program.lower().startswith("python") else ""
    if module:
        return f"{program} -m {module}"
    script = next((word for word in argv[1:4] if _SCRIPT.search(word)), "")
    return f"{program} {_name(script)}" if script else program


def _module(argv: tuple[str, ...]) -> str:
    """The module of `python -X OPTION -I -m MODULE`; empty where something else stands before the `-m`."""
    for number, word in enumerate(argv[1:-1], 1):
        if word == "-m":
            return argv[number + 1]
        if not word.startswith("-") and argv[number - 1] not in ("-X", "-W"):
            break
    return ""


def _name(word: str) -> str:
    """The last part of a path of any system."""
    return re.split(r"[/\\]", word)[-1] or word


def _account(number: int) -> str:
    import pwd  # not there on Windows

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def read(pid: int) -> Process | None:
    """The process with this pid, None when it is gone, a zombie, or not to be seen."""
    if _PROC.is_dir():
        return _read_proc(pid)
    if os.name == "nt":
        return next((one for one in table() if one.pid == pid), None)
    return next((one for one in _ps(["-p", str(pid)]) if one.pid == pid), None)


def table() -> list[Process]:
    """All processes that this user may see."""
    if os.name == "nt":
        return [Process(*row) for row in windows.rows()]
    if not _PROC.is_dir():
        return _ps(["-ax"])
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
    return [one for one in map(_read_proc, pids) if one is not None]


def services_under(home: Path, everyone: Iterable[Process]) -> list[Process]:
    """Processes that a service manager started from a release below `home/hosts/*/releases/` or `home/releases/`.

    Holders of sockets come first: who ends them all must not have a holder start its worker again.

    Known by their program, or by the argument `iop-release=<folder>` that every service of ours carries, because a
    framework Python on macOS hides argv[0]. Commands that a person runs go through `current` and are not among them.
    """
    hosts, releases = (f"{home.absolute() / name}{os.sep}" for name in ("hosts", "releases"))
    middle = f"{os.sep}releases{os.sep}"

    def ours(part: str) -> bool:
        return part.startswith(releases) or (part.startswith(hosts) and middle in part)

    everyone = list(everyone)
    holders = [one for one in everyone if f"{HOLDER}{home.absolute()}" in one.argv]
    found = [one for one in everyone if any(ours(part.removeprefix(MARK)) for part in one.argv[:1] + _marked(one.argv))]
    return holders + [one for one in found if one not in holders]


def _marked(argv: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for part in argv if part.startswith(MARK))


def without_family(candidates: Iterable[Process], known: Iterable[int], everyone: Iterable[Process]) -> list[Process]:
    """The candidates that are neither a known pid nor a descendant of one."""
    parents = {one.pid: one.parent for one in everyone}
    family = set(known)

    def belongs(pid: int) -> bool:
        seen: set[int] = set()
        while pid > 1 and pid not in seen:
            if pid in family:
                return True
            seen.add(pid)
            pid = parents.get(pid, 0)
        return False

    return [one for one in candidates if not belongs(one.pid)]


def end(process: Process, *, within: float, sleep: Callable[[float], None] = time.sleep) -> bool:
    """End one process: TERM, after `within` seconds KILL. Only while the pid still shows the same argv.

    True when it is gone.
    """
    kill = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows TERM ends it at once
    for number, patience in ((signal.SIGTERM, within), (kill, 5.0)):
        if not _same(process):
            return True
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not _same(process):
                return True
            sleep(0.05)
    return not _same(process)


def _same(process: Process) -> bool:
    now = read(process.pid)
    return now is not None and now.argv == process.argv


def _read_proc(pid: int) -> Process | None:
    try:
        raw = (_PROC / str(pid) / "cmdline").read_bytes()
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, parent = stat.rpartition(")")[2].split()[:2]
    if state == "Z":
        return None
    argv = tuple(part.decode("utf-8", "surrogateescape") for part in raw.rstrip(b"\0").split(b"\0"))
    return Process(pid, int(parent), argv)


def _ps(selection: list[str]) -> list[Process]:
    """The table by `ps`, for systems without /proc. Arguments are split at blanks: enough to know our own paths."""
    done = subprocess.run(
        ["ps", *selection, "-o", "pid=,ppid=,stat=,command="],  # noqa: S607 - ps stands elsewhere on each system
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
    )
    found = []
    for line in done.stdout.splitlines():
        fields = line.split(None, 3)
        if len(fields) == 4 and not fields[2].startswith("Z"):
            found.append(Process(int(fields[0]), int(fields[1]), tuple(fields[3].split())))
    return found
