"""iop_release.lock: one at a time."""

import fcntl
import os
import sys
import types
from pathlib import Path

import pytest

from iop_release.lock import alone


def test_the_lock_is_held_and_let_go(tmp_path: Path) -> None:
    """While it is held nobody else gets it; afterwards they do, and the folder was made."""
    with alone(tmp_path / "home"), (tmp_path / "home" / ".lock").open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / "home" / ".lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_only_its_owner_can_hold_it(tmp_path: Path) -> None:
    """Who may open the file, to read it only, could keep every deploy waiting."""
    before = os.umask(0)
    try:
        with alone(tmp_path):
            assert (tmp_path / ".lock").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_windows_locks_a_byte_and_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is taken is asked for again; it is let go of even when the work fails."""
    calls: list[str] = []
    refusals = [OSError(13, "Permission denied"), OSError(36, "Resource deadlock avoided")]

    def locking(number: int, mode: str, count: int) -> None:
        calls.append(f"{mode} {count}")
        if mode == "try" and refusals:
            raise refusals.pop()

    fake = types.SimpleNamespace(locking=locking, LK_NBLCK="try", LK_UNLCK="free")
    monkeypatch.setitem(sys.modules, "msvcrt", fake)
    waits: list[float] = []

    def work() -> None:
        with alone(tmp_path, windows=True, sleep=waits.append):
            calls.append("work")
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert calls == ["try 1", "try 1", "try 1", "work", "free 1"]
    assert len(waits) == 2
