"""Telling the Edge when an agent becomes ready."""

import asyncio

from iop.link.messages import AdapterInfo, TargetInfo
from iop.node import target_watch
from iop.node.target_watch import TargetWatch
from iop.transport.tasks import TaskSet
from tests.fakes.until import until


class FakeRack:
    """One agent, which is ready after `looks_needed` looks."""

    def __init__(self, looks_needed):
        self.looks = 0
        self.looks_needed = looks_needed

    async def look(self):
        self.looks += 1

    def infos(self):
        ready = self.looks >= self.looks_needed
        return (
            AdapterInfo(
                name="cli", type="cli", max_concurrency=0, targets=(TargetInfo(name="t", kind="text", ready=ready),)
            ),
        )


async def test_a_change_is_told_once(monkeypatch):
    """What the Edge knows already is not told again."""
    monkeypatch.setattr(target_watch, "EVERY", 0.001)
    told = []
    tasks = TaskSet()
    rack = FakeRack(3)
    watch = TargetWatch(rack, tasks, lambda: told.append(watch.tell()[0].targets[0].ready))
    assert watch.tell()[0].targets[0].ready is False
    watch.start()
    await until(lambda: rack.looks > 6)
    assert told == [True]
    watch.stop()
    watch.stop()
    await tasks.close()
    looks = rack.looks
    await asyncio.sleep(0.01)
    assert rack.looks == looks
