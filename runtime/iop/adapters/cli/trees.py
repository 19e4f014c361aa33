"""Starting and ending a program with everything that it started, on POSIX and on Windows."""

import contextlib
import errno
import logging
import os
import signal
import subprocess
import uuid
from typing import Any, Protocol

from iop.adapters.cli.proc_table import MARK, ProcTable
from iop.adapters.cli.windows_job import Job, open_job

#: Windows' CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW; the names exist on Windows only
_WINDOWS_FLAGS = 0x00000200 | 0x08000000
_TASKKILL_WITHIN = 5.0

_log = logging.getLogger(__name__)


class Tree(Protocol):
    """One run's program with its descendants, as the platform groups them. Used once, for one program."""

    def marks(self) -> dict[str, str]:
        """Return the variables that the program must be started with."""

    def start_options(self) -> dict[str, Any]:
        """Return the options that start the program as the root of a new group."""

    def started(self, pid: int) -> None:
        """The program runs, as this process."""

    def end(self, *, force: bool) -> None:
        """Tell all members to end, or kill them; nothing happens when they are gone."""

    def alive(self) -> bool:
        """Return whether any member still runs; a dead one that nobody has reaped does not."""

    def close(self) -> None:
        """Free what the system holds for the tree."""


def tree_for(platform: str) -> Tree:
    """Return the tree of one run for a `sys.platform`."""
    return WindowsTree() if platform == "win32" else PosixTree()


class PosixTree:
    """A session of its own: signals reach each member of its group, also after the leader's end.

    Where there is a /proc (Linux), a mark in the environment finds the ones that left the group as well (setsid).
    Elsewhere (macOS) the group is all that can be seen.
    """

    def __init__(self, table: ProcTable | None = None) -> None:
        self._table = table or ProcTable()
        self._mark = f"{self._table.owner()}/{uuid.uuid4().hex}"
        self._group = 0
        self._since = 0

    def marks(self) -> dict[str, str]:
        """Return the mark."""
        return {MARK: self._mark}

    def start_options(self) -> dict[str, Any]:
        """Return the option that makes the program lead a new session and process group."""
        return {"start_new_session": True}

    def started(self, pid: int) -> None:
        """Remember the group, whose number is the leader's pid, and when that began."""
        self._group = pid
        entry = self._table.entry(pid)
        self._since = entry.started if entry is not None else 0

    def end(self, *, force: bool) -> None:
        """Send SIGTERM, or SIGKILL, to the group and to whoever left it."""
        if not self._group:  # never started; 0 would mean our own group
            return
        number = signal.SIGKILL if force else signal.SIGTERM
        members = self._members()  # before a parent's end hides who descends from it
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM when only zombies are left
            os.killpg(self._group, number)
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def alive(self) -> bool:
        """Return whether a member other than a zombie exists."""
        if self._table.exists:
            return bool(self._members())
        try:
            os.killpg(self._group, 0)
        except OSError as error:
            return error.errno not in {errno.ESRCH, errno.EPERM}
        return True

    def close(self) -> None:
        """Nothing is held."""

    def _members(self) -> set[int]:
        return self._table.tree(self._mark, self._group, self._since) if self._group else set()


class WindowsTree:
    """A job object: what the program starts is in it, cannot leave it, and ends with it, also when this node is killed.

    Windows cannot ask a program without a window to end, only end it. Where no job can be had, `taskkill /T` walks
    the tree. Not run on a real Windows yet.
    """

    def __init__(self, job: Job | None = None) -> None:
        self._job = job or open_job()
        self._pid = 0

    def marks(self) -> dict[str, str]:
        """Return nothing: the job finds its members."""
        return {}

    def start_options(self) -> dict[str, Any]:
        """Return the flags that start the program in a group of its own, without a window."""
        return {"creationflags": _WINDOWS_FLAGS}

    def started(self, pid: int) -> None:
        """Put the program into the job; what it starts from then on follows."""
        self._pid = pid
        if self._job is not None and not self._job.take(pid):
            self._job.close()
            self._job = None

    def end(self, *, force: bool) -> None:  # noqa: ARG002 - there is only one way here
        """End all members at once."""
        if self._job is not None:
            self._job.terminate()
            return
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(  # noqa: S603 - fixed words and a number
                ("taskkill", "/T", "/F", "/PID", str(self._pid)),  # noqa: S607 - found by Windows in its own folder
                capture_output=True,
                timeout=_TASKKILL_WITHIN,
                check=False,
            )

    def alive(self) -> bool:
        """Return whether the job has members; without one False: what `taskkill` walked is gone with it."""
        return self._job is not None and self._job.members() > 0

    def close(self) -> None:
        """Close the job, which ends whatever is still in it."""
        if self._job is not None:
            self._job.close()
            self._job = None


def end_orphans(table: ProcTable | None = None) -> int:
    """Kill agents of node processes that are gone (killed, crashed) and return how many there were.

    Linux only: on macOS nothing marks them, on Windows the job has ended them already.
    """
    count = 0
    for pid, _ in (table or ProcTable()).orphans():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            count += 1
    if count:
        _log.warning("ended %d processes that agents of a killed node had left running", count)
    return count
