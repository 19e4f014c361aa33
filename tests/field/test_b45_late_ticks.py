"""Field case B45: a busy event loop is not a dead peer."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, response, stream_head
from tests.fakes.stack import Engine, Stack, chat, stack

MIB = 1024 * 1024
#: seconds of `link.dead_after`; the loop, which Edge and node share here, is blocked for one and a half of them
DEAD_AFTER = 0.4


async def _serve(exchange: Exchange) -> None:
    """A stream goes on until the test lets it end; anything else is answered at once."""
    if b'"stream": true' not in exchange.body:
        await exchange.send(response(200, b'{"choices": []}'))
        return
    await exchange.send(stream_head())
    while not STOP.is_set():
        await exchange.send(chunk(event({"choices": [{"delta": {"content": "x"}}]})))
        await asyncio.sleep(0.01)
    await exchange.send(chunk(b"data: [DONE]\n\n") + LAST_CHUNK)


STOP = asyncio.Event()


def _links(s: Stack) -> list[int]:
    return [link.epoch for link in s.edge._core.links._nodes.values()]


@pytest.mark.parametrize("over", ["plain", "tls"])
async def test_b45_a_blocked_loop_keeps_the_connection(tmp_path: Path, over: str) -> None:
    """Field case B45: blocked three times in a row while four streams run: the same connection, every stream whole."""
    STOP.clear()
    tls = Authority(tmp_path) if over == "tls" else None
    options = {"link": {"dead_after": f"{DEAD_AFTER:g}s"}}
    async with stack(tmp_path, Engine(_serve, capacity=5), tls=tls, **options) as s:
        before = _links(s)
        clients = [await s.open(chat(stream=True)) for _ in range(4)]
        for client in clients:
            await client.until(b"data:")
        for _ in range(3):
            asyncio.get_running_loop().call_soon(time.sleep, 1.5 * DEAD_AFTER)
            mark = clients[0].seen.count(b"data:") + 20
            await clients[0].until(b"data:", mark)
        STOP.set()
        answers = [await client.answer() for client in clients]
        assert all(answer.body.endswith(b"data: [DONE]\n\n") for answer in answers)
        assert _links(s) == before


async def test_b45_a_large_post_beside_streams_keeps_the_connection(tmp_path: Path) -> None:
    """Field case B45: a 30 MiB JSON passes while four streams run; the link stays up and no stream is cut."""
    STOP.clear()
    async with stack(tmp_path, Engine(_serve, capacity=5), link={"dead_after": "1s"}) as s:
        before = _links(s)
        clients = [await s.open(chat(stream=True)) for _ in range(4)]
        for client in clients:
            await client.until(b"data:")
        assert (await s.post(chat("x" * (30 * MIB)))).status == 200
        STOP.set()
        answers = [await client.answer() for client in clients]
        assert all(answer.body.endswith(b"data: [DONE]\n\n") for answer in answers)
        assert _links(s) == before
