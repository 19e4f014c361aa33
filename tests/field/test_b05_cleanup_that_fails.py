"""Field case B05: an engine that breaks in the middle of an answer, and a cleanup step that raises itself."""

import json
from pathlib import Path

import aiohttp
import pytest

from tests.fakes.fake_up import Exchange, chunk, event, stream_head
from tests.fakes.stack import Engine, Stack, answer_ok, chat, stack

DELTA = {"choices": [{"index": 0, "delta": {"content": "x"}}]}
CAPACITY = 2


async def _reset_in_mid_chunk(exchange: Exchange) -> None:
    for _ in range(3):
        await exchange.send(chunk(event(DELTA)))
    await exchange.send(b"ff\r\ndata: {")
    exchange.reset()


async def _after_a_head(exchange: Exchange) -> None:
    await exchange.send(stream_head())
    await _reset_in_mid_chunk(exchange)


async def _break_often(s: Stack) -> None:
    """Let more streams break than there are slots; each client is told, and sees a cut."""
    for _ in range(2 * CAPACITY):
        answer = await s.post(chat(stream=True))
        assert answer.cut
        assert b"[DONE]" not in answer.body
        last = answer.body.strip().rpartition(b"data: ")[2]
        assert json.loads(last)["error"]["code"] == "upstream_broken"
    await s.idle()
    assert s.totals("admitted", "failed", "completed") == (2 * CAPACITY, 2 * CAPACITY, 0)
    s.up.script = answer_ok
    good = await s.post()
    assert (good.status, good.headers["x-iop-provider"]) == (200, "p1")


async def test_b05_engine_resets_in_mid_chunk(tmp_path: Path) -> None:
    """Field case B05: after twice as many resets as slots, the same provider serves the next request."""
    async with stack(tmp_path, Engine(_after_a_head, capacity=CAPACITY)) as s:
        await _break_often(s)


async def test_b05_closing_the_broken_answer_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case B05: a close that raises after the break hides nothing and keeps no slot."""
    close = aiohttp.ClientResponse.close

    def closes_badly(self: aiohttp.ClientResponse) -> None:
        close(self)
        raise RuntimeError("the transport is already gone")

    async with stack(tmp_path, Engine(_after_a_head, capacity=CAPACITY)) as s:
        monkeypatch.setattr(aiohttp.ClientResponse, "close", closes_badly)
        await _break_often(s)
        monkeypatch.undo()
