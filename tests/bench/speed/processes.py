"""Processes of a run: started with it, ended with it, and what they cost: CPU from schedstat, memory as PSS."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.lifeline import ends_with_us

TICKS = os.sysconf("SC_CLK_TCK")
#: what other programs may take (cores) in a measurement that counts, and before one begins
QUIET, CALM = 0.35, 0.25
#: seconds that one measure waits for others to be quiet, at most
CALM_WAIT = 6.0


@dataclass
class Children:
    """Everything a run started. `folder` gets a log per name."""

    folder: Path
    alive: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], name: str, *, output: int | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start it in a session of its own; the kernel ends it if this process goes without a word.

        What it says goes to NAME.log; with `output=PIPE` only its errors do.
        """
        with (self.folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                ends_with_us(argv), env={**os.environ, **env}, stdin=subprocess.DEVNULL, start_new_session=True,
                stdout=log if output is None else output, stderr=log,
            )  # fmt: skip
        self.alive.append(child)
        return child

    def stop(self, children: Sequence["subprocess.Popen[bytes]"] | None = None) -> None:
        """SIGTERM to each group, SIGKILL after 5 s; without an argument to all that still run."""
        chosen = list(self.alive if children is None else children)
        for child in chosen:
            _signal_group(child, signal.SIGTERM)
        for child in chosen:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                _signal_group(child, signal.SIGKILL)
                child.wait()
            if child in self.alive:
                self.alive.remove(child)


def _signal_group(child: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    if child.poll() is None:
        os.killpg(child.pid, number)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def accepts(port: int) -> bool:
    """Something listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def tree(root: int) -> list[int]:
    """The process and all below it that live."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
            below.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        found.append(one := todo.pop())
        todo += below.get(one, [])
    return found


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on; None when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None


def cpu_of(root: int) -> float:
    """Seconds of CPU that the process and what lives below it have used.

    schedstat counts nanoseconds, but forgets threads that ended; where that shows, the coarse count of stat is taken.
    """
    total = 0.0
    for pid in tree(root):
        if (fields := _stat(pid)) is None:
            continue
        coarse, fine = (int(fields[11]) + int(fields[12])) / TICKS, 0.0
        try:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                fine += int((thread / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
        except (OSError, IndexError):
            fine = 0.0
        total += fine if fine > coarse - 0.05 else coarse
    return total


def memory_of(roots: Sequence[int]) -> float:
    """MB (PSS) of the processes and all below them: shared pages are counted once among their users."""
    kilobytes = 0
    for pid in {pid for root in roots for pid in tree(root)}:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return round(kilobytes / 1024, 2)


class Watch:
    """What others take of the machine while something is measured."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Count from now."""
        self._busy, self._ours, self._at = _busy(), _ours(), time.monotonic()

    def others(self) -> float:
        """Cores that other programs used since `begin`, on average."""
        passed = max(1e-6, time.monotonic() - self._at)
        return max(0.0, ((_busy() - self._busy) - (_ours() - self._ours)) / passed)


def await_calm(wait: float = CALM_WAIT, limit: float = CALM) -> None:
    """Wait until others use less than `limit` cores, for `wait` s at most."""
    until = time.monotonic() + wait
    while time.monotonic() < until:
        watch = Watch()
        time.sleep(0.3)
        if watch.others() < limit:
            return


def _busy() -> float:
    """Seconds of CPU used on the machine since it booted."""
    first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    fields = [int(one) for one in first.split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICKS


def _ours() -> float:
    """Seconds of CPU of this process, of all that it started, and of those children that have ended."""
    times = os.times()
    return cpu_of(os.getpid()) + times.children_user + times.children_system
