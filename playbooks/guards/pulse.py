"""A line every ten seconds while a task takes long, for Ansible prints nothing while a task runs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

STILL_EVERY = 10.0  # seconds of silence after which a line says what is still running


class Pulse:
    """One thread. It holds no lock, because Ansible forks beside it; `each_second` is called from it."""

    def __init__(self, each_second: Callable[[], None]) -> None:
        self._name = ""
        self._since = time.monotonic()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._each_second = each_second
        self._quiet = os.environ.get("IOP_QUIET") is not None

    def watch(self, name: str) -> None:
        """A task of this name begins."""
        self._name, self._since = name, time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """No more lines."""
        self._end.set()

    def _run(self) -> None:
        told = self._since
        while not self._end.wait(1.0):
            self._each_second()
            now = time.monotonic()
            if not self._quiet and now - max(self._since, told) >= STILL_EVERY:
                told = now
                with contextlib.suppress(OSError):  # nobody reads any more; the thread has other work too
                    os.write(2, f"  … {now - self._since:.0f} s: {self._name}\n".encode())
