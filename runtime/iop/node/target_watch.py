"""Watching which CLI agents are ready, and telling the Edge when that changes."""

import asyncio
from collections.abc import Callable

from iop.link.messages import AdapterInfo
from iop.node.rack import Rack
from iop.transport.tasks import TaskSet

#: seconds between two comparisons; what is not ready is looked at less often (see the CLI adapter's readiness)
EVERY = 2.0


class TargetWatch:
    """Looks at the targets once a config is in force, and calls `changed` when what the Edge was told is not so."""

    def __init__(self, rack: Rack, tasks: TaskSet, changed: Callable[[], None]) -> None:
        self._rack = rack
        self._tasks = tasks
        self._changed = changed
        self._told: tuple[AdapterInfo, ...] = ()
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch the adapters of the config in force."""
        self.stop()
        self._loop = self._tasks.start(self._run(), name="targets")

    def stop(self) -> None:
        """Watch no more (no link, or leaving)."""
        if self._loop is not None:
            self._loop.cancel()
            self._loop = None

    def tell(self) -> tuple[AdapterInfo, ...]:
        """Return what there is to tell, which counts as told."""
        self._told = self._rack.infos()
        return self._told

    async def _run(self) -> None:
        while True:
            await self._rack.look()
            if self._rack.infos() != self._told:
                self._changed()
            await asyncio.sleep(EVERY)
