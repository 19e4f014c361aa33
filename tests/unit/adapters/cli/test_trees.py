"""Ending a program with everything that it started."""

import contextlib
import os
import signal
import subprocess
import sys
import time

from iop.adapters.cli.proc_table import ProcTable
from iop.adapters.cli.trees import PosixTree, WindowsTree, end_orphans, tree_for
from tests.fakes.agents import python


def test_the_platform_chooses():
    """Windows has its own way, everything else is POSIX."""
    assert isinstance(tree_for("win32"), WindowsTree)
    assert isinstance(tree_for("linux"), PosixTree)
    assert isinstance(tree_for("darwin"), PosixTree)


@contextlib.contextmanager
def start(tree, program="import time; time.sleep(600)"):
    """Run a Python program as the root of the tree; killed at the end, so that a failed test ends at once."""
    environ = {**os.environ, **tree.marks()}
    options = tree.start_options()
    with subprocess.Popen(python(program), env=environ, stdout=subprocess.PIPE, **options) as process:
        tree.started(process.pid)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def test_posix_group():
    """A tree lives until its last member is dead, reaped or not; ending it twice is harmless."""
    tree = tree_for("linux")
    with start(tree) as process:
        assert os.getpgid(process.pid) == process.pid
        assert tree.alive()
        tree.end(force=True)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie
        assert not tree.alive()
        assert process.wait() == -signal.SIGKILL
    assert not tree.alive()
    tree.end(force=True)
    tree.close()


def test_posix_without_proc(tmp_path):
    """Where there is no /proc (macOS), the group is what there is."""
    tree = PosixTree(ProcTable(tmp_path))
    with start(tree) as process:
        assert tree.alive()
        tree.end(force=False)
        assert process.wait() == -signal.SIGTERM
    assert not tree.alive()


def test_a_tree_that_was_never_started():
    """Nothing is signalled: least of all our own group."""
    tree = tree_for("linux")
    tree.end(force=True)
    assert not tree.alive()


#: a program whose child leaves for a session of its own, ignores SIGTERM and outlives its parent
LEAVES = f"""import subprocess, sys
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
subprocess.Popen({list(python(""))[:-1]!r} + [child], start_new_session=True)
"""


def test_who_leaves_the_group_is_found():
    """Field case B55: a grandchild with a session of its own is a member by its mark, also when it is an orphan."""
    tree = tree_for("linux")
    with start(tree, LEAVES) as process:
        assert process.stdout.readline() == b"up\n"
        assert process.wait() == 0
        assert tree.alive()
        tree.end(force=False)
        assert tree.alive()
        tree.end(force=True)
        wait_gone(tree)


def test_a_child_without_the_mark_is_found_by_its_parent():
    """A program may clear its children's environment: who descends from a member is one."""
    program = LEAVES.replace("start_new_session=True", "start_new_session=True, env={}")
    program = program.replace("import signal, time;", "import os, signal, time;").replace("'up'", "os.getpid()")
    tree = tree_for("linux")
    with start(tree, program + "import time; time.sleep(600)") as process:
        child = int(process.stdout.readline())
        tree.end(force=True)
        process.wait()
        until = time.monotonic() + 20
        while (entry := ProcTable().entry(child)) is not None and entry.lives:
            assert time.monotonic() < until
            time.sleep(0.01)


def wait_gone(tree):
    """Wait until a killed tree is gone."""
    until = time.monotonic() + 20
    while tree.alive():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_orphans_of_a_killed_node_are_ended():
    """Field case B55: agents of a node that was killed end at the next node's start; others' agents do not."""
    node = (
        f"import os, subprocess, sys; sys.path[:0] = {sys.path!r}\n"
        "from iop.adapters.cli.trees import tree_for\n"
        "tree = tree_for('linux')\n"
        f"agent = subprocess.Popen({list(python('import time; time.sleep(600)'))!r}, stdout=subprocess.DEVNULL,"
        " env={**os.environ, **tree.marks()}, **tree.start_options())\n"
        "print(agent.pid, flush=True)\nos.kill(os.getpid(), 9)"
    )
    mine = tree_for("linux")
    with start(mine) as alive:
        said = subprocess.run([sys.executable, "-c", node], stdout=subprocess.PIPE, check=False)
        assert said.returncode == -signal.SIGKILL
        end_orphans()  # or any node that starts on this host meanwhile
        until = time.monotonic() + 20
        while (entry := ProcTable().entry(int(said.stdout))) is not None and entry.lives:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert alive.poll() is None


def test_what_is_ended_is_counted(monkeypatch, caplog):
    """How many there were is told in the log; one that is gone meanwhile is none."""
    ended = []

    def kill(pid, number):
        if pid == 2:
            raise ProcessLookupError
        ended.append((pid, number))

    class Table:
        def orphans(self):
            return iter([(1, "a"), (2, "b"), (3, "a")])

    monkeypatch.setattr(os, "kill", kill)
    assert end_orphans(Table()) == 2
    assert ended == [(1, signal.SIGKILL), (3, signal.SIGKILL)]
    assert "ended 2 processes" in caplog.text


class FakeJob:
    """Stands for a Windows job; `calls` is what it was told."""

    def __init__(self, *, takes=True):
        self.calls = []
        self.takes = takes
        self.count = 2

    def take(self, pid):
        self.calls.append(("take", pid))
        return self.takes

    def members(self):
        return self.count

    def terminate(self):
        self.calls.append("terminate")
        self.count = 0

    def close(self):
        self.calls.append("close")


def test_windows_job():
    """On Windows a job holds the program and what it starts, and ends them all."""
    job = FakeJob()
    tree = WindowsTree(job)
    assert (tree.marks(), tree.start_options()) == ({}, {"creationflags": 0x08000200})
    tree.started(42)
    assert tree.alive()
    tree.end(force=False)
    assert not tree.alive()
    tree.close()
    tree.close()
    assert job.calls == [("take", 42), "terminate", "close"]


def test_windows_without_a_job(monkeypatch):
    """Where no job can be had, taskkill walks the tree."""
    calls = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: calls.append(command))
    job = FakeJob(takes=False)
    tree = WindowsTree(job)
    tree.started(42)
    tree.end(force=False)
    assert calls == [("taskkill", "/T", "/F", "/PID", "42")]
    assert job.calls == [("take", 42), "close"]
    assert not tree.alive()


def test_windows_without_taskkill(monkeypatch):
    """A system without the tool does not break the end of a run."""

    def missing(*_args, **_options):
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", missing)
    tree = tree_for("win32")
    tree.started(42)
    tree.end(force=True)
