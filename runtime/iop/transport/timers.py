"""Timers on the event loop."""

import asyncio
from collections.abc import Callable


class Ticker:
    """Calls `tick` again and again until it is closed; `interval()` (seconds) is asked before each wait.

    The next call is planned before `tick` runs, so that an error in it (the loop reports it) does not end the ticks.
    """

    def __init__(self, interval: Callable[[], float], tick: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._interval = interval
        self._tick = tick
        self._handle: asyncio.TimerHandle | None = None
        self._plan()

    def close(self) -> None:
        """No call comes after this. Safe to call twice."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _plan(self) -> None:
        self._handle = self._loop.call_later(self._interval(), self._run)

    def _run(self) -> None:
        self._plan()
        self._tick()
