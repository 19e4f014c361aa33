"""Field case B08: a newcomer must not take the slot of those who wait."""

import asyncio
import random
from pathlib import Path

from tests.fakes.fake_up import Exchange
from tests.fakes.raw_client import RawClient
from tests.fakes.stack import Engine, Stack, answer_ok, chat, stack

FIRST, NEWCOMERS = 30, 20


async def _arrive(s: Stack, number: int, clients: list[RawClient]) -> None:
    """Send request `number`, and see it arrive before the next is sent."""
    clients.append(await s.open(chat(str(number))))
    await s.until(lambda status: status["totals"]["received"] > number)


async def test_b08_service_order_is_arrival_order(tmp_path: Path) -> None:
    """Field case B08: thirty requests, and twenty newcomers at the very moments of release, are served in order."""
    rnd, clients = random.Random(8), []
    all_there = asyncio.Event()

    async with stack(tmp_path, Engine(answer_ok)) as s:

        async def script(exchange: Exchange) -> None:
            await all_there.wait()
            await asyncio.sleep(rnd.choice((0, 0, 0.001, 0.003)))
            late = None
            if len(clients) < FIRST + NEWCOMERS:  # its bytes and this answer reach the Edge together
                late = await s.open(chat(str(len(clients))))
                clients.append(late)
            await answer_ok(exchange)
            if late is not None:
                number = len(clients)
                await s.until(lambda status: status["totals"]["received"] >= number)

        s.up.script = script
        for number in range(FIRST):
            await _arrive(s, number, clients)
        assert s.load() == (1, FIRST - 1)
        all_there.set()
        await s.until(lambda status: status["totals"]["completed"] == FIRST + NEWCOMERS)
        assert {(await client.answer()).status for client in clients} == {200}
        served = [int(exchange.json["messages"][0]["content"]) for exchange in s.up.requests]
        assert served == list(range(FIRST + NEWCOMERS))
        assert s.up.hwm == 1
        assert s.totals("returned", "failed") == (0, 0)
