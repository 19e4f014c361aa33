"""Ending a program with everything that it started."""

import os
import signal
import subprocess
import sys

from iop.adapters.cli.trees import PosixTree, WindowsTree, tree_for


def test_the_platform_chooses():
    """Windows has its own way, everything else is POSIX."""
    assert isinstance(tree_for("win32"), WindowsTree)
    assert isinstance(tree_for("linux"), PosixTree)
    assert isinstance(tree_for("darwin"), PosixTree)


def test_posix_group():
    """A group lives until its last member is dead, reaped or not; ending it twice is harmless."""
    tree = tree_for("linux")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **tree.start_options()) as process:
        assert os.getpgid(process.pid) == process.pid
        assert tree.alive(process.pid)
        tree.end(process.pid, force=True)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie
        assert not tree.alive(process.pid)
        assert process.wait() == -signal.SIGKILL
    assert not tree.alive(process.pid)
    tree.end(process.pid, force=True)


def test_posix_without_proc(tmp_path):
    """Where there is no /proc (macOS), the signal's own answer counts."""
    tree = PosixTree(proc=tmp_path)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **tree.start_options()) as process:
        assert tree.alive(process.pid)
        tree.end(process.pid, force=False)
        assert process.wait() == -signal.SIGTERM
    assert not tree.alive(process.pid)


def test_windows_walks_the_tree(monkeypatch):
    """On Windows taskkill ends the program with its descendants; a missing taskkill is no error here."""
    calls = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: calls.append(command))
    tree = tree_for("win32")
    tree.end(42, force=False)
    assert calls == [("taskkill", "/T", "/F", "/PID", "42")]
    assert tree.start_options() == {"creationflags": 0x08000200}
    assert not tree.alive(42)


def test_windows_without_taskkill(monkeypatch):
    """A system without the tool does not break the end of a run."""

    def missing(*_args, **_options):
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", missing)
    WindowsTree().end(42, force=True)
