"""The processes of this host as /proc shows them (Linux): who descends from whom, and who carries a mark."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: the variable that marks an agent and all that it starts: `<owner>/<run>`; see `owner_of`
MARK = "IOP_AGENT_RUN"


@dataclass(frozen=True, slots=True)
class Entry:
    """One process. `started` is in the kernel's ticks since boot: with the pid it names one process for ever."""

    pid: int
    parent: int
    group: int
    state: str
    started: int

    @property
    def lives(self) -> bool:
        """False for a dead one that nobody has reaped."""
        return self.state not in "ZX"


class ProcTable:
    """Reads the table below `root`; each call looks anew. On a system without it there is nothing to see."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root

    @property
    def exists(self) -> bool:
        """Whether this system has the table."""
        return (self._root / "self" / "stat").exists()

    def entry(self, pid: int) -> Entry | None:
        """Return the process, None when it is gone."""
        try:
            stat = (self._root / str(pid) / "stat").read_bytes()
        except OSError:
            return None
        # the program's name, in parentheses, may hold anything; the rest is numbers and one letter
        fields = stat[stat.rindex(b")") + 2 :].split()
        return Entry(pid, int(fields[1]), int(fields[2]), fields[0].decode(), int(fields[19]))

    def living(self) -> dict[int, Entry]:
        """Return all processes that live, by pid."""
        try:
            pids = [int(name) for name in os.listdir(self._root) if name.isdigit()]  # noqa: PTH208 - twice as fast
        except OSError:
            return {}
        return {pid: entry for pid in pids if (entry := self.entry(pid)) is not None and entry.lives}

    def mark(self, pid: int) -> str | None:
        """Return the value of MARK in the environment that a process was started with; None: none, or not ours."""
        try:
            variables = (self._root / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            return None
        name = MARK.encode() + b"="
        return next((item[len(name) :].decode("ascii", "replace") for item in variables if item.startswith(name)), None)

    def tree(self, mark: str, group: int, since: int = 0) -> set[int]:
        """Return the living processes that belong to a run: marked, in its group, or started by such a one.

        `since`: when the run's program began, in the kernel's ticks. What is older carries no mark of it, and is not
        asked for one: that is another file to read for each process of the host.
        """
        living = self.living()
        mine = os.getpid()
        found = {
            pid
            for pid, entry in living.items()
            if pid != mine and (entry.group == group or (entry.started >= since and self.mark(pid) == mark))
        }
        while more := {pid for pid, entry in living.items() if entry.parent in found} - found:
            found |= more
        return found

    def owner(self) -> str:
        """Return what names this process among all of this host, its pid's later owners and containers included."""
        entry = self.entry(os.getpid())
        return f"{self._namespace()}-{os.getpid()}-{entry.started if entry else 0}"

    def orphans(self) -> Iterator[tuple[int, str]]:
        """Yield (pid, mark) of marked processes whose owner is gone: a node that could not end them any more."""
        namespace = self._namespace()
        for pid in self.living():
            mark = self.mark(pid)
            if mark is not None and _owner_is_gone(self, mark, namespace):
                yield pid, mark

    def _namespace(self) -> str:
        try:
            return "".join(filter(str.isdigit, str((self._root / "self" / "ns" / "pid").readlink())))
        except OSError:
            return "0"


def _owner_is_gone(table: ProcTable, mark: str, namespace: str) -> bool:
    """False also when the mark is not ours to judge: another namespace of pids, or not made by this code."""
    match mark.partition("/")[0].split("-"):
        case [where, pid, started] if where == namespace and pid.isdigit() and started.isdigit():
            entry = table.entry(int(pid))
            return entry is None or not entry.lives or entry.started != int(started)
    return False
