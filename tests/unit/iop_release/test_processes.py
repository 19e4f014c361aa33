"""iop_release.processes: who runs, who is ours, ending one by pid."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iop_release import processes
from iop_release.processes import Process

WAIT = "import sys; print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for its stdin."""
    with subprocess.Popen([sys.executable, "-c", WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def test_a_process_is_read_with_its_parent(sleeper: subprocess.Popen[bytes]) -> None:
    """The table shows pid, parent and arguments; a pid that is gone is nobody."""
    found = processes.read(sleeper.pid)

    assert found is not None
    assert (found.pid, found.parent, found.argv[1:]) == (sleeper.pid, os.getpid(), ("-c", WAIT))
    assert found in processes.table()
    sleeper.kill()
    sleeper.wait()
    assert processes.read(sleeper.pid) is None


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (
            ("/r/python", "-X", "iop-release=/r", "-I", "-m", "iop.commands.edge", "--key", "s3cret"),
            "python -m iop.commands.edge",
        ),
        (("/x/python3.12", "/opt/bin/vllm", "serve", "--api-key", "s3cret"), "python3.12 vllm"),
        (("C:\\Program Files\\node.exe", "C:\\app\\server.js", "s3cret"), "node.exe server.js"),
        (("curl", "-m", "s3cret"), "curl"),
        (("python3", "-c", "key='s3cret'", "-m", "s3cret"), "python3"),
        (("serve", "--key=/bin/s3cret", "--file=s3cret.py"), "serve"),
        (("nginx: worker --key=a/s3cret",), "nginx:"),
        ((" ",), "(not to be seen)"),
        ((), "(not to be seen)"),
    ],
)
def test_a_command_line_is_shown_without_its_options(argv: tuple[str, ...], shown: str) -> None:
    """Program, and script or module, of any system; everything else can be a secret."""
    assert Process(1, 0, argv).shown == shown


def test_ours_are_told_by_program_or_mark() -> None:
    """A release's program or the mark in the arguments says ours; commands through `current` and readers do not."""
    home = Path("/srv/iop/build/dev-runtime")
    release = f"{home}/hosts/mac/releases/r1"
    ours = Process(1, 0, (f"{release}/venv/bin/python", "-m", "x"))
    marked = Process(2, 0, ("/framework/Python", "-X", f"iop-release={release}", "-m", "x"))
    host = Process(6, 0, (f"{home}/releases/r1/venv/bin/python", "-m", "x"))  # a host whose folder this is
    command = Process(3, 0, (f"{home}/hosts/mac/current/venv/bin/python", "-m", "x"))
    reader = Process(4, 0, ("vim", f"{release}/venv/lib/x.py"))
    other = Process(5, 0, ("/srv/iop/build/local-runtime/hosts/mac/releases/r1/venv/bin/python",))

    assert processes.services_under(home, [ours, marked, command, reader, other, host]) == [ours, marked, host]


def test_the_family_of_a_known_service_is_left_alone() -> None:
    """Children and grandchildren of a known pid are not left-overs; a loop in the table ends."""
    everyone = [Process(10, 1, ("a",)), Process(11, 10, ("b",)), Process(12, 11, ("c",)), Process(20, 1, ("d",))]

    assert [one.pid for one in processes.without_family(everyone, [10], everyone)] == [20]
    loop = [Process(30, 31, ("e",)), Process(31, 30, ("f",))]
    assert processes.without_family(loop, [10], loop) == loop


def test_a_process_is_ended_by_its_pid(sleeper: subprocess.Popen[bytes]) -> None:
    """TERM is tried first and is enough."""
    found = processes.read(sleeper.pid)
    assert found is not None

    assert processes.end(found, within=20)
    assert sleeper.wait() == -signal.SIGTERM


def test_a_pid_with_another_program_is_not_touched(sleeper: subprocess.Popen[bytes]) -> None:
    """A pid that was given to another program in between is never signalled."""
    assert processes.end(Process(sleeper.pid, 0, ("another", "program")), within=1)
    assert sleeper.poll() is None


def test_a_deaf_process_is_killed() -> None:
    """What ignores TERM gets KILL."""
    code = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = processes.read(child.pid)
        assert found is not None
        assert processes.end(found, within=0.2)
        assert child.wait() == -signal.SIGKILL
