"""Field case B03: a client of a non-streamed answer leaves before its first byte."""

import asyncio
from pathlib import Path

import pytest

from tests.fakes.agents import living, python
from tests.fakes.fake_up import JSON, Exchange, Script, head
from tests.fakes.stack import Engine, answer_ok, chat, stack
from tests.fakes.until import until

THINKS = "import sys, time\nsys.stdin.read()\nprint('half', flush=True)\ntime.sleep(600)"


async def _silent(exchange: Exchange) -> None:
    """Send no status line."""
    await exchange.peer_left.wait()


async def _head_only(exchange: Exchange) -> None:
    """Send the head and a part of the body, then nothing."""
    await exchange.send(head(200, (*JSON, ("Content-Length", "100"))) + b'{"choices": [')
    await exchange.peer_left.wait()


@pytest.mark.parametrize("how", ["close", "reset", "shut"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("script", [_silent, _head_only])
async def test_b03_the_engine_is_told_and_the_next_client_starts(
    tmp_path: Path, script: Script, stream: bool, how: str
) -> None:
    """Field case B03: the engine call is closed and the waiting client starts within two seconds."""
    async with stack(tmp_path, Engine(script)) as s:
        gone = await s.open(chat(stream=stream))
        await s.until(lambda status: s.up.running)
        s.up.script = answer_ok
        second = await s.open()
        await s.until(lambda status: status["totals"]["queued"] == 1)
        assert not s.up.requests[0].peer_left.is_set()
        left_at = asyncio.get_running_loop().time()
        getattr(gone, how)()
        assert (await second.answer()).status == 200
        assert asyncio.get_running_loop().time() - left_at < 2.0
        assert s.up.requests[0].peer_left.is_set()
        assert s.up.hwm == 1
        assert s.totals("cancelled", "completed", "failed") == (1, 1, 0)
        gone.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_b03_the_agent_is_ended(tmp_path: Path, stream: bool) -> None:
    """Field case B03 with a CLI agent: it is gone within seconds of its client, not when it has finished thinking."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": python(THINKS)}) as s:
        client = await s.open(chat(model="agent", stream=stream))
        await until(lambda: list(living(s.marker)))
        if stream:
            await client.until(b"half")
        client.close()
        await until(lambda: not list(living(s.marker)))
        await s.idle()
        assert s.direct()["cancelled"] == 1


async def test_b03_a_half_closed_client_is_gone_each_time(tmp_path: Path) -> None:
    """Field case B03: request and FIN together: never an answer of the engine, however fast; a refusal each time."""
    async with stack(tmp_path, Engine(answer_ok), queue={"max_waiting": 1}) as s:

        async def told() -> bytes:
            client = await s.open()
            client.shut()
            await client.ended()
            return bytes(client.seen)

        assert {await told() for _ in range(20)} == {b""}
        await s.idle()
        assert s.totals("received", "cancelled", "completed") == (20, 20, 0)
        s.up.script = _silent
        holder = await s.open()
        await s.until(lambda status: status["totals"]["in_flight"] == 1)
        waiter = await s.open()
        await s.until(lambda status: status["totals"]["queued"] == 1)
        assert all([b" 429 " in await told() for _ in range(20)])
        holder.close()
        waiter.close()
