"""A Ctrl-C that ends the run.

Ansible raises KeyboardInterrupt once, in its signal handler. Where that falls into code whose exceptions Python drops
(a hook after a fork, a finalizer), the run goes on as if nothing was asked; where it falls between the start of a
worker and the note of it, that worker is not told, and Ansible waits for its task's end. So it is asked again.

Nor does Ansible end when whoever read its output is gone (`make dev | tee log`, and Ctrl-C ends tee first): its thread
of results dies of the broken pipe, its workers wait for that thread, and it waits for them, for ever. That is an
interrupt too. So are SIGTERM and a terminal that is closed, of which Ansible would die without a last word.

A worker that is told passes the signal to its process group and dies at once, whether the command that it runs there
cares or not (a test run takes its time, a program may ignore SIGINT). So whoever is still in these groups is ended
before the run ends. Services of ours are in groups of their own.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

AGAIN_EVERY_S = 3.0
GIVE_UP_AFTER_S = 15.0
#: seconds that commands of this run have to end by themselves, and after a SIGTERM
LEAVE_S = ((0, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 2.0))
EXIT_CODE = 99  # Ansible's own for "User interrupted execution"


class Interrupt:
    """Notes the first SIGINT, hands it on to Ansible, and sees to it that the run ends."""

    def __init__(self, *, at_end: Callable[[], None] = lambda: None) -> None:
        self.since: float | None = None
        self._main = threading.main_thread().ident
        self._told = 0.0
        self._pid = os.getpid()
        self._at_end = at_end
        self._before: Any = None
        self._groups: set[int] = set()  # of the workers that were at work when the run was interrupted
        self._ending = self._hurry = False

    def install(self) -> None:
        """Stand before the handler that is there; in the main thread only."""
        self._before = signal.getsignal(signal.SIGINT)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # else whoever started it has it go on
            signal.signal(signal.SIGHUP, self._on_signal)

    def insist(self) -> None:
        """Called each second by another thread: ask again, and end the process when nothing helps."""
        now = time.monotonic()
        if self.since is None and _nobody_reads(1):
            self.since = now
        if self.since is None:
            return
        self._note_workers()
        patience = GIVE_UP_AFTER_S + sum(seconds for _, seconds in LEAVE_S) * self._ending
        if now - self.since >= patience:
            self._end()
        elif not self._ending and now - max(self.since, self._told) >= AGAIN_EVERY_S:
            self._told = now
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._main or 0), ctypes.py_object(KeyboardInterrupt)
            )

    def end_commands(self) -> None:
        """End what the workers began on this machine and is still at work; called at the run's end."""
        self._ending = True
        self._note_workers()
        for number, patience in LEAVE_S:
            for group in self._at_work() if number else ():
                with contextlib.suppress(OSError):
                    os.killpg(group, number)
            until = time.monotonic() + patience
            if self._at_work() and not number:
                text = "waiting for what this run began here to end (Ctrl-C again: at once)\n"
                with contextlib.suppress(OSError):
                    os.write(2, text.encode())
            while self._at_work() and time.monotonic() < until and not (self._hurry and number != signal.SIGKILL):
                time.sleep(0.1)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a worker that was just forked: as if nobody had stood here
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._hurry = self._ending
        if self._ending:
            return
        self.since = time.monotonic()
        self._note_workers()
        try:
            if callable(self._before):
                self._before(signal.SIGINT, frame)
            else:
                raise KeyboardInterrupt
        finally:
            signal.signal(signal.SIGINT, self._on_signal)  # Ansible's own handler gives it up

    def _note_workers(self) -> None:
        self._groups |= {child.pid for child in multiprocessing.active_children() if child.pid}

    def _at_work(self) -> set[int]:
        multiprocessing.active_children()  # takes the workers that have ended off the system's table
        self._groups = {group for group in self._groups if _lives(group)}
        return self._groups

    def _end(self) -> None:
        self._note_workers()
        for group in self._groups:  # a worker leads a process group of its own, in which its command runs
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        with contextlib.suppress(Exception):
            self._at_end()
        os._exit(EXIT_CODE)


def _lives(group: int) -> bool:
    """Whether somebody in this process group still runs; who has ended and is not waited for does not count."""
    try:
        os.killpg(group, 0)
    except OSError:  # nobody; macOS says so of a zombie, too
        return False
    stats = list(Path("/proc").glob("[0-9]*/stat"))
    return not stats or any(_runs_in(group, stat) for stat in stats)


def _runs_in(group: int, stat: Path) -> bool:
    try:
        state, _, its_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
    except OSError:
        return False
    return state != "Z" and int(its_group) == group


def _nobody_reads(number: int) -> bool:
    """True when the other end of this pipe or terminal is closed."""
    try:
        poll = select.poll()
        poll.register(number, 0)
        return bool(poll.poll(0))
    except (OSError, AttributeError):
        return False
