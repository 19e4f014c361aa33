"""Field case B09: a slot is taken before the engine answers and held until its last byte."""

import asyncio
from pathlib import Path

import pytest

from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, response, stream_head
from tests.fakes.stack import Engine, chat, stack


class Slow:
    """An engine that stops at `head`, and in the middle of its answer at `body`, until told to go on."""

    def __init__(self) -> None:
        self.head = asyncio.Event()
        self.body = asyncio.Event()
        self.half = 0
        self.log: list[str] = []

    async def serve(self, exchange: Exchange) -> None:
        who = exchange.json["messages"][0]["content"]
        self.log.append(f"start {who}")
        await self.head.wait()
        if exchange.json.get("stream"):
            first, rest = stream_head() + chunk(event({"n": 1})), chunk(event("[DONE]")) + LAST_CHUNK
        else:
            whole = response()
            first, rest = whole[:-1], whole[-1:]
        await exchange.send(first)
        self.half += 1
        await self.body.wait()
        self.log.append(f"end {who}")
        await exchange.send(rest)


@pytest.mark.parametrize("stream", [False, True])
async def test_b09_the_second_starts_after_the_last_byte_of_the_first(tmp_path: Path, stream: bool) -> None:
    """Field case B09: with one slot, slow headers and a slow body, the engine never sees two requests at once."""
    slow = Slow()
    async with stack(tmp_path, Engine(slow.serve)) as s:
        clients = [await s.open(chat(who, stream=stream)) for who in ("a", "b", "c")]
        await s.until(lambda status: status["totals"]["received"] == 3)
        assert s.load() == (1, 2)  # taken before any header came
        slow.head.set()
        await s.until(lambda status: slow.half)
        if stream:
            await clients[0].until(b"data:")  # the head has passed the whole way
        assert s.load() == (1, 2)
        assert slow.log == ["start a"]
        slow.body.set()
        assert [(await client.answer()).status for client in clients] == [200, 200, 200]
        assert slow.log == ["start a", "end a", "start b", "end b", "start c", "end c"]
        assert s.up.hwm == 1
