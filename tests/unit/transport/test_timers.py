"""Timers on the loop."""

import asyncio

from iop.transport.timers import Ticker
from tests.fakes.until import until


async def test_it_ticks_until_it_is_closed():
    """Ticks come again and again, and none after close, which may be called twice."""
    ticks: list[float] = []
    ticker = Ticker(lambda: 0.001, lambda: ticks.append(1.0))
    await until(lambda: len(ticks) >= 3)
    ticker.close()
    ticker.close()
    count = len(ticks)
    await asyncio.sleep(0.01)
    assert len(ticks) == count


async def test_an_error_in_a_tick_does_not_end_the_ticks():
    """The loop reports the error; the next tick comes all the same."""
    reported: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(1.0)
        if len(ticks) == 1:
            raise ValueError("first")

    ticker = Ticker(lambda: 0.001, tick)
    await until(lambda: len(ticks) >= 2)
    ticker.close()
    assert isinstance(reported[0]["exception"], ValueError)


async def test_a_tick_may_close_its_ticker():
    """Closing from within ends it."""
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(1.0)
        ticker.close()

    ticker = Ticker(lambda: 0.001, tick)
    await until(lambda: ticks)
    await asyncio.sleep(0.01)
    assert len(ticks) == 1


async def test_the_interval_is_asked_each_time():
    """A changed interval counts from the next wait."""
    intervals = iter([0.001, 0.001])
    ticks: list[float] = []
    ticker = Ticker(lambda: next(intervals, 3600.0), lambda: ticks.append(1.0))
    await until(lambda: len(ticks) == 2)
    await asyncio.sleep(0.01)
    assert len(ticks) == 2
    ticker.close()
