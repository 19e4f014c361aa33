"""A line every ten seconds while a task takes long, for Ansible prints nothing while a task runs."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

STILL_EVERY = 10.0  # seconds of silence after which a line says what is still running
LONG_AFTER = 180.0  # seconds of tests after which the way around them is told
AROUND = '  … -e run_tests=false deploys without the tests (make dev ARGS="-e run_tests=false")\n'
_PERCENT = re.compile(rb"\[ *(\d+%)\]")


class Pulse:
    """One thread. It holds no lock, because Ansible forks beside it; `each_second` is called from it."""

    def __init__(self, each_second: Callable[[], None]) -> None:
        self._name = ""
        self._since = time.monotonic()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._each_second = each_second
        self._told_around = False
        self.tests_log: Path | None = None  # where pytest writes in the step that runs the tests
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
                    os.write(2, self._line(now - self._since).encode())

    def _line(self, seconds: float) -> str:
        """What is told after these seconds in the step."""
        log = self._live_log(seconds)
        if log is None:
            return f"  … {seconds:.0f} s: {self._name}\n"
        found = _PERCENT.findall(log)
        far = f"{found[-1].decode()} of the tests are through" if found else "the tests are starting"
        around = AROUND if seconds >= LONG_AFTER and not self._told_around else ""
        self._told_around = self._told_around or bool(around)
        return f"  … {seconds:.0f} s: {far} ({self.tests_log})\n{around}"

    def _live_log(self, seconds: float) -> bytes | None:
        """What pytest wrote in this step; None in a step that runs no tests."""
        try:
            if self.tests_log is None or self.tests_log.stat().st_mtime < time.time() - seconds - 1:
                return None
            return self.tests_log.read_bytes()
        except OSError:
            return None
