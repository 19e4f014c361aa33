"""The simulator's slots and its counters."""

import asyncio
from dataclasses import asdict

import pytest

from iop.simulator.slots import Slots
from tests.fakes.until import until


async def hold(slots, order, name, done):
    """Hold a slot until `done`; note the moment of getting it."""
    async with slots.held():
        order.append(name)
        await done.wait()


async def test_more_than_n_wait_in_order_and_count_as_offered():
    """Two slots, five requests: two run, three wait inside, and they start in the order they came."""
    slots, order, done = Slots(2), [], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for name in range(5):
            group.create_task(hold(slots, order, name, done))
        await until(lambda: slots.stats.waiting == 3)
        assert (slots.stats.running, slots.stats.peak_offered) == (2, 5)
        done.set()
    assert order == [0, 1, 2, 3, 4]
    assert asdict(slots.stats) == {
        "running": 0, "waiting": 0, "peak_running": 2, "peak_offered": 5, "started": 5, "completed": 5, "cancelled": 0,
    }  # fmt: skip


@pytest.mark.parametrize("victim", [0, 1])
async def test_leaving_frees_the_place_at_once(victim):
    """Who leaves, running or waiting, is counted once and its place goes on to the next."""
    slots, order, done = Slots(1), [], asyncio.Event()
    tasks = [asyncio.ensure_future(hold(slots, order, name, done)) for name in range(3)]
    await until(lambda: slots.stats.waiting == 2)
    tasks[victim].cancel()
    await until(lambda: slots.stats.waiting == 1)
    done.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order[-1] == 2
    assert (slots.stats.running, slots.stats.completed, slots.stats.cancelled) == (0, 2, 1)


async def test_a_slot_that_comes_as_its_client_leaves_is_passed_on():
    """A hand-over and a leaving in the same moment lose no slot."""
    slots, order, done, second = Slots(1), [], asyncio.Event(), asyncio.Event()
    first = asyncio.ensure_future(hold(slots, order, "first", done))
    waiter = asyncio.ensure_future(hold(slots, order, "waiter", second))
    await until(lambda: slots.stats.waiting == 1)
    done.set()
    first.add_done_callback(lambda _: waiter.cancel())
    await asyncio.gather(first, waiter, return_exceptions=True)
    assert slots.stats.running == 0
    async with slots.held():
        assert slots.stats.running == 1
