"""The simulator's slots: N at once, more wait inside in order, and everything is counted."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """`GET /stats`. Offered = running + waiting; `cancelled` = the client left before the end, also while waiting."""

    running: int = 0
    waiting: int = 0
    peak_running: int = 0
    peak_offered: int = 0
    started: int = 0
    completed: int = 0
    cancelled: int = 0


class Slots:
    """`count` slots (>= 1), handed over in arrival order."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.stats = Stats()
        self._line: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold one slot while inside; counted as completed, or as cancelled when left by an exception."""
        try:
            await self._take()
            try:
                yield
            finally:
                self._give_back()
        except BaseException:
            self.stats.cancelled += 1
            raise
        self.stats.completed += 1

    async def _take(self) -> None:
        stats = self.stats
        stats.peak_offered = max(stats.peak_offered, stats.running + stats.waiting + 1)
        if stats.running < self.count:
            self._start()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        stats.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()  # the slot came in the moment its client left
            else:
                self._line.remove(turn)
                stats.waiting -= 1
            raise

    def _start(self) -> None:
        stats = self.stats
        stats.running += 1
        stats.started += 1
        stats.peak_running = max(stats.peak_running, stats.running)

    def _give_back(self) -> None:
        self.stats.running -= 1
        if self._line:
            self.stats.waiting -= 1
            self._start()
            self._line.popleft().set_result(None)
