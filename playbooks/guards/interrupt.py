"""A Ctrl-C that ends the run.

Ansible raises KeyboardInterrupt once, in its signal handler. Where that falls into code whose exceptions Python drops
(a hook after a fork, a finalizer), the run goes on as if nothing was asked; where it falls between the start of a
worker and the note of it, that worker is not told, and Ansible waits for its task's end. So it is asked again.

Nor does Ansible end when whoever read its output is gone (`make dev | tee log`, and Ctrl-C ends tee first): its thread
of results dies of the broken pipe, its workers wait for that thread, and it waits for them, for ever. That is an
interrupt too.
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
from types import FrameType
from typing import Any

AGAIN_EVERY_S = 3.0
GIVE_UP_AFTER_S = 15.0
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

    def install(self) -> None:
        """Stand before the handler that is there; in the main thread only."""
        self._before = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, self._on_signal)

    def insist(self) -> None:
        """Called each second by another thread: ask again, and end the process when nothing helps."""
        now = time.monotonic()
        if self.since is None and _nobody_reads(1):
            self.since = now
        if self.since is None:
            return
        if now - self.since >= GIVE_UP_AFTER_S:
            self._end()
        elif now - max(self.since, self._told) >= AGAIN_EVERY_S:
            self._told = now
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._main or 0), ctypes.py_object(KeyboardInterrupt)
            )

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._pid:  # not in a worker that was just forked
            self.since = time.monotonic()
        if callable(self._before):
            self._before(number, frame)
        else:
            raise KeyboardInterrupt

    def _end(self) -> None:
        for child in multiprocessing.active_children():
            with contextlib.suppress(OSError):  # a worker leads a process group of its own, in which its command runs
                os.killpg(child.pid or 0, signal.SIGKILL)
        with contextlib.suppress(Exception):
            self._at_end()
        os._exit(EXIT_CODE)


def _nobody_reads(number: int) -> bool:
    """True when the other end of this pipe or terminal is closed."""
    try:
        poll = select.poll()
        poll.register(number, 0)
        return bool(poll.poll(0))
    except (OSError, AttributeError):
        return False
