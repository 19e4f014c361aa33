"""Field case B01: clients that leave while they wait in line."""

import asyncio
from pathlib import Path

import pytest

from tests.fakes.fake_up import Exchange
from tests.fakes.stack import Engine, answer_ok, chat, stack


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("how", ["close", "reset"])
async def test_b01_abandoned_waiters_vanish_and_no_engine_sees_them(tmp_path: Path, how: str, stream: bool) -> None:
    """Field case B01: twenty callers leave the line; it is empty at once, the engine sees two requests, not 22."""
    held = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await held.wait()
        await answer_ok(exchange)

    async with stack(tmp_path, Engine(script)) as s:
        first = await s.open()
        await s.until(lambda status: s.up.running)
        waiting = [await s.open(chat(f"w{n}", stream=stream)) for n in range(20)]
        await s.until(lambda status: status["totals"]["queued"] == 20)
        for client in waiting:
            getattr(client, how)()
        await s.until(lambda status: status["totals"]["queued"] == 0)
        assert not held.is_set()  # the line is empty although the slot was never free
        last = await s.open(chat("last"))
        await s.until(lambda status: status["totals"]["queued"] == 1)
        held.set()
        assert [(await client.answer()).status for client in (first, last)] == [200, 200]
        await s.idle()
        assert [exchange.json["messages"][0]["content"] for exchange in s.up.requests] == ["hi", "last"]
        assert s.totals("received", "abandoned", "admitted", "completed") == (22, 20, 2, 2)


async def test_b01_the_place_in_line_is_freed_for_others(tmp_path: Path) -> None:
    """Field case B01: places of callers that left are free again, so that nobody is refused for ghosts."""
    held = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await held.wait()
        await answer_ok(exchange)

    async with stack(tmp_path, Engine(script), queue={"max_waiting": 3}) as s:
        first = await s.open()
        await s.until(lambda status: s.up.running)
        for _ in range(5):
            ghosts = [await s.open() for _ in range(3)]
            await s.until(lambda status: status["totals"]["queued"] == 3)
            for ghost in ghosts:
                ghost.close()
            await s.until(lambda status: status["totals"]["queued"] == 0)
        alive = [await s.open() for _ in range(3)]
        await s.until(lambda status: status["totals"]["queued"] == 3)
        held.set()
        assert {(await client.answer()).status for client in (first, *alive)} == {200}
        assert s.totals("refused", "abandoned", "completed") == (0, 15, 4)
