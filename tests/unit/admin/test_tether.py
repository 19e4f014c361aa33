"""iop.admin.tether: a command that ends with whoever started it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import iop.admin.tether

TETHER = [sys.executable, "-I", "-S", iop.admin.tether.__file__]
#: says its pid, then waits for ever
CHILD = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(3600)"]


def _start(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen([*TETHER, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_the_command_ends_when_standard_input_ends() -> None:
    """Closing the pipe ends it; its exit code is that of the command."""
    with _start(CHILD) as tether:
        assert tether.stdout is not None
        assert tether.stdin is not None
        int(tether.stdout.readline())
        tether.stdin.close()

        assert tether.stdout.read() == ""  # the command held it, and is gone
        assert tether.wait(30) != 0


def test_a_starter_that_is_killed_takes_the_command_along(tmp_path: Path) -> None:
    """SIGKILL of the starter closes the pipe, and so ends the command."""
    starter = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen({[*TETHER, *CHILD]!r}, stdin=subprocess.PIPE)\n"
        "time.sleep(3600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        try:
            assert parent.stdout.read() == ""  # ends when the last holder is gone
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_command_that_ends_by_itself_ends_the_tether() -> None:
    """Its exit code is passed on at once, the pipe still open; a missing program is 127."""
    for command, code in (([sys.executable, "-c", "raise SystemExit(7)"], 7), (["/nonexistent/ssh"], 127)):
        with _start(command) as tether:
            assert tether.wait(30) == code
