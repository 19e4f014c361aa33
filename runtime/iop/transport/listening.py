"""Listening addresses: reading and writing them, and saying who holds a port that is busy."""

import contextlib
import errno
import platform
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

_BUSY = frozenset({errno.EADDRINUSE, 10048})  # 10048: Windows' WSAEADDRINUSE
_LISTEN = "0A"  # the kernel's code for a listening socket in /proc/net/tcp
_ASK_WITHIN = 5.0  # seconds for lsof or netstat


class PortBusy(Exception):
    """An address to listen on is taken; `owner` tells by whom (pid and command) where the system says so."""

    def __init__(self, address: str, owner: str | None) -> None:
        held_by = owner or "another process (its owner is not visible to this user)"
        hint = "stop that process or choose another listen address in the config"
        super().__init__(f"port {address} is busy: held by {held_by}; {hint}")
        self.address = address
        self.owner = owner


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[None]:
    """Wrap the binding of `host:port`: a taken port becomes `PortBusy`, other refusals an OSError with the address."""
    address = join_address(host, port)
    try:
        yield
    except OSError as error:
        if error.errno in _BUSY:
            raise PortBusy(address, port_owner(port)) from error
        raise OSError(error.errno, f"cannot listen on {address}: {error.strerror or error}") from error


def split_address(text: str) -> tuple[str, int]:
    """Read `host:port` or `[v6]:port`. Raises ValueError when it is neither."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"not a host:port address: {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def join_address(host: str, port: int) -> str:
    """Write `host:port`, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def port_owner(port: int) -> str | None:
    """`pid N (program)` of the process that listens on TCP `port` of this machine, None when that cannot be seen.

    The command is cut to its program and module, because arguments may hold secrets.
    """
    system = platform.system()
    if system == "Linux":
        return _linux_owner(port, Path("/proc"))
    if system == "Windows":
        return netstat_owner(_ask("netstat", "-ano", "-p", "TCP"), port)
    return lsof_owner(_ask("lsof", "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"))


def lsof_owner(answer: str) -> str | None:
    """Read `lsof -Fpc` output: lines `p<pid>` and `c<command>`."""
    found = re.search(r"^p(\d+)\n(?:[^c\n].*\n)*c(.+)$", answer, re.MULTILINE)
    return f"pid {found[1]} ({found[2]})" if found else None


def netstat_owner(answer: str, port: int) -> str | None:
    """Read `netstat -ano -p TCP` output of Windows; it knows the pid only."""
    found = re.search(rf"^\s*TCP\s+\S+:{port}\s+\S+:0\s+\S+\s+(\d+)\s*$", answer, re.MULTILINE)
    return f"pid {found[1]}" if found else None


def command_name(argv: list[str]) -> str:
    """The program of a command line, with its module or script when it is an interpreter; no other argument."""
    if not argv:
        return "?"
    program = Path(argv[0].split(" -")[0]).name  # a title that a program gave itself is one word with blanks
    if "-m" in argv[1:-1] and program.lower().startswith("python"):
        return f"{program} -m {argv[argv.index('-m', 1) + 1]}"
    script = next((word for word in argv[1:2] if word.endswith(".py") or "/bin/" in word), None)
    return f"{program} {Path(script).name}" if script else program


def _linux_owner(port: int, proc: Path) -> str | None:
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listeners(proc / "net" / table, port)}
    if not inodes:
        return None
    for process in proc.iterdir():
        if process.name.isdigit() and _holds(process, inodes):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
                return f"pid {process.name} ({command_name([word for word in words if word])})"
    return None


def _listeners(table: Path, port: int) -> Iterator[str]:
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return
    for fields in map(str.split, lines):
        if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
            yield fields[9]


def _holds(process: Path, sockets: set[str]) -> bool:
    try:
        for handle in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if str(handle.readlink()) in sockets:
                    return True
    except OSError:  # gone meanwhile, or another user's
        return False
    return False


def _ask(*command: str) -> str:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_WITHIN, check=False)  # noqa: S603 - fixed words and a number
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout
