"""Field case B14, every shape of cut: wherever the engine's bytes stop, the client sees no success."""

import asyncio
import gzip
from pathlib import Path

import pytest

from tests.fakes.fake_up import JSON, LAST_CHUNK, SSE, Exchange, Script, chunk, event, head, stream_head
from tests.fakes.stack import Engine, chat, stack

DELTA = event({"choices": [{"index": 0, "delta": {"content": "x"}}]})
JSON_BODY = b'{"object": "chat.completion", "choices": [{"index": 0}]}'
CODED = gzip.compress(JSON_BODY)
LENGTH = (*JSON, ("Content-Length", str(len(JSON_BODY))))
CODED_HEAD = (*JSON, ("Content-Encoding", "gzip"))

#: what the engine sends before it is gone, streamed
STREAMS = {
    "after the head": stream_head(),
    "in a size line": stream_head() + chunk(DELTA) + b"4",
    "in a chunk": stream_head() + chunk(DELTA) + chunk(DELTA)[:20],
    "before a chunk's line end": stream_head() + chunk(DELTA)[:-2],
    "before the last chunk": stream_head() + chunk(DELTA),
    "in the last chunk": stream_head() + chunk(DELTA) + b"0\r\n",
    "nonsense for a size": stream_head() + chunk(DELTA) + b"zz\r\n",
    "with its connection": head(200, SSE) + DELTA,
    "with its connection, in an event": head(200, SSE, version="1.0") + DELTA + DELTA[:20],
    "coded": stream_head(200, (*SSE, ("Content-Encoding", "gzip"))) + chunk(gzip.compress(DELTA)[:-3]) + LAST_CHUNK,
}
#: and whole answers
WHOLES = {
    "in the status line": b"HTTP/1.1 2",
    "in the headers": head(200, LENGTH)[:40],
    "after the head": head(200, LENGTH),
    "short of its length": head(200, LENGTH) + JSON_BODY[:-1],
    "in a chunk": stream_head(200, JSON) + chunk(JSON_BODY)[:30],
    "before the last chunk": stream_head(200, JSON) + chunk(JSON_BODY),
    "with its connection": head(200, JSON, version="1.0") + JSON_BODY[:-1],
    "a refusal, with its connection": head(400, JSON, version="1.0") + b'{"error": "no',
    "coded": stream_head(200, CODED_HEAD) + chunk(CODED[:-3]) + LAST_CHUNK,
    "coded, with its connection": head(200, CODED_HEAD, version="1.0") + CODED[:-9],
    "not HTTP": b"SSH-2.0-nonsense\r\n\r\n",
}


def _cut(data: bytes, *, reset: bool) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.send(data)
        (exchange.reset if reset else exchange.close)()

    return script


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
async def test_b14_every_cut_of_a_stream(tmp_path: Path, reset: bool) -> None:
    """Field case B14: an error object and no [DONE], then an abnormal end, or a plain 502; counted, the slot free."""
    async with stack(tmp_path, Engine(_cut(b"", reset=reset))) as s:
        for count, (where, data) in enumerate(STREAMS.items(), start=1):
            s.up.script = _cut(data, reset=reset)
            answer = await s.post(chat(stream=True))
            assert (where, answer.status) == (where, 200) or (answer.status, answer.code) == (502, "upstream_broken")
            assert answer.cut or answer.status == 502, where
            assert b'"error"' in answer.body, where
            assert b"[DONE]" not in answer.body, where
            await s.idle()
            assert (where, *s.totals("completed", "failed")) == (where, 0, count)


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
async def test_b14_every_cut_of_a_whole_answer(tmp_path: Path, reset: bool) -> None:
    """Field case B14: never half an answer: a 502 in OpenAI's shape, counted, the slot free."""
    async with stack(tmp_path, Engine(_cut(b"", reset=reset))) as s:
        for where, data in WHOLES.items():
            s.up.script = _cut(data, reset=reset)
            answer = await s.post()
            assert (where, answer.status) == (where, 502)
            assert answer.code in {"upstream_broken", "upstream_unreachable"}
            assert not answer.cut
            await s.idle()
            assert (where, s.totals("completed")) == (where, (0,))


@pytest.mark.parametrize("stays", [False, True])
async def test_b14_nonsense_for_a_size_in_the_middle_of_a_stream(tmp_path: Path, stays: bool) -> None:
    """Field case B14: it ends the stream with an error at once, also when it comes in a segment of its own."""
    delta_read = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head() + chunk(DELTA))
        await delta_read.wait()
        await exchange.send(DELTA)
        if stays:
            await exchange.peer_left.wait()
        exchange.close()

    async with stack(tmp_path, Engine(script), checks_request=False) as s:
        client = await s.open(chat(stream=True))
        await client.until(DELTA)
        delta_read.set()
        answer = await client.answer()
        assert answer.cut
        assert b'"error"' in answer.body
        await s.idle()
        assert s.totals("completed", "failed") == (0, 1)
