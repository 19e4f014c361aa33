"""Field case B02: clients that leave in the middle of a stream."""

import asyncio
from pathlib import Path

import pytest

from tests.fakes.agents import living, python
from tests.fakes.fake_up import Exchange, chunk, event, stream_head
from tests.fakes.stack import Engine, Stack, answer_ok, chat, stack
from tests.fakes.until import until

ENDLESS = "import sys, time\nsys.stdin.read()\nwhile True: print('tick', flush=True); time.sleep(0.01)"


async def _stream_until_left(exchange: Exchange) -> None:
    """Send events for as long as somebody is there."""
    await exchange.send(stream_head())
    while not exchange.peer_left.is_set():
        await exchange.send(chunk(event({"choices": [{"delta": {"content": "x"}}]})))
        await asyncio.sleep(0.002)


async def _drop(s: Stack, how: str, model: str = "m") -> None:
    client = await s.open(chat(model=model, stream=True))
    await client.until(b"data:", 2)
    getattr(client, how)()


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_b02_fifty_dropped_streams_leave_fifty_free_slots(tmp_path: Path, how: str) -> None:
    """Field case B02: each dropped stream closes its engine connection and frees its slot; request 51 is served."""
    async with stack(tmp_path, Engine(_stream_until_left, capacity=2)) as s:
        async with asyncio.TaskGroup() as group:  # more than capacity at once, so that slots are really needed again
            for _ in range(50):
                group.create_task(_drop(s, how))
        await s.idle()
        await until(lambda: s.up.peers_left == 50)
        assert len(s.up.requests) == 50
        assert s.up.hwm <= 2
        assert s.totals("admitted", "cancelled", "failed", "completed") == (50, 50, 0, 0)
        s.up.script = answer_ok
        assert (await s.post()).status == 200


async def test_b02_dropped_agent_streams_leave_no_process(tmp_path: Path) -> None:
    """Field case B02 with a CLI agent: the agent of a client that left is gone and counted as cancelled."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": python(ENDLESS)}) as s:
        for _ in range(3):
            await _drop(s, "close", "agent")
        await s.idle()
        assert not list(living(s.marker))
        assert s.direct() == {"in_flight": 0, "completed": 0, "failed": 0, "cancelled": 3}
