"""The one place that starts background tasks: each is referenced, its failure is logged, all are awaited at close."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_log = logging.getLogger(__name__)


class TaskSet:
    """A set of background tasks with one owner. `close()` cancels what still runs and waits until it is gone."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run `work` in the background under `name`; an exception it raises is logged once with its name."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def cancel(self) -> None:
        """Cancel every task; they end soon after."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel every task and wait for all to end. Safe to call twice."""
        while self._tasks:
            self.cancel()
            # `gather` does not give way to the loop when all have ended (Python 3.12), so `_done` would never run
            await asyncio.wait(tuple(self._tasks))

    async def drained(self) -> None:
        """Wait until no task is left, without cancelling any."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("background task %s failed", task.get_name(), exc_info=error)
