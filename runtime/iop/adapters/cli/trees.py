"""Starting and ending a program with everything that it started, on POSIX and on Windows."""

import contextlib
import errno
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Protocol

#: Windows' CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW; the names exist on Windows only
_WINDOWS_FLAGS = 0x00000200 | 0x08000000
_TASKKILL_WITHIN = 5.0


class Tree(Protocol):
    """How the platform groups a program with its descendants; `pid` is the program's own."""

    def start_options(self) -> dict[str, Any]:
        """Return the options that start a program as the root of a new group."""

    def end(self, pid: int, *, force: bool) -> None:
        """Tell the whole group to end, or kill it; nothing happens when it is gone."""

    def alive(self, pid: int) -> bool:
        """Return whether any member still runs; a dead one that nobody has reaped does not."""


def tree_for(platform: str) -> Tree:
    """Return the tree for a `sys.platform`."""
    return WindowsTree() if platform == "win32" else PosixTree()


class PosixTree:
    """A session of its own: signals reach each member, also after the leader's end."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def start_options(self) -> dict[str, Any]:
        """Return the option that makes the program lead a new session and process group."""
        return {"start_new_session": True}

    def end(self, pid: int, *, force: bool) -> None:
        """Send SIGTERM, or SIGKILL, to the group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM when only zombies are left
            os.killpg(pid, signal.SIGKILL if force else signal.SIGTERM)

    def alive(self, pid: int) -> bool:
        """Return whether a member other than a zombie exists."""
        try:
            os.killpg(pid, 0)
        except OSError as error:
            return error.errno not in {errno.ESRCH, errno.EPERM}
        # where process 1 does not reap orphans, dead members stay for ever: only /proc tells them from living ones
        return not (self._proc / "self").exists() or any(
            group == pid and state not in "ZX" for state, group in self._members()
        )

    def _members(self) -> list[tuple[str, int]]:
        found = []
        for entry in self._proc.iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_bytes()
                except OSError:  # gone meanwhile
                    continue
                # the program's name, in parentheses, may hold anything; then state, parent and group follow
                state, _, group = stat[stat.rindex(b")") + 2 :].split()[:3]
                found.append((state.decode(), int(group)))
        return found


class WindowsTree:
    """Windows has no group signal: `taskkill /T` walks the tree. A program cannot be asked to end, only killed."""

    def start_options(self) -> dict[str, Any]:
        """Return the flags that start the program in a group of its own, without a window."""
        return {"creationflags": _WINDOWS_FLAGS}

    def end(self, pid: int, *, force: bool) -> None:  # noqa: ARG002 - there is only one way here
        """Kill the program and its descendants while the tree can still be walked."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(  # noqa: S603 - fixed words and a number
                ("taskkill", "/T", "/F", "/PID", str(pid)),  # noqa: S607 - found by Windows in its own folder
                capture_output=True,
                timeout=_TASKKILL_WITHIN,
                check=False,
            )

    def alive(self, pid: int) -> bool:  # noqa: ARG002 - the contract's signature
        """Return False: what `taskkill` walked is gone with it, and the program's own end is seen by its parent."""
        return False
