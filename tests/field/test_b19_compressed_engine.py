"""Field case B19: an engine that compresses although `identity` was asked for."""

import asyncio
import gzip
import json
import zlib
from pathlib import Path

import pytest

from tests.fakes.fake_up import JSON, LAST_CHUNK, SSE, Exchange, Script, chunk, event, response, stream_head
from tests.fakes.stack import Engine, chat, stack

BODY = b'{"object": "chat.completion", "choices": [], "x": "' + b"y" * 3000 + b'"}'
BUSY = b'{"error": {"message": "slow down", "type": "rate_limit_error", "code": null}}'
DELTAS = [event({"choices": [{"index": 0, "delta": {"content": str(n)}}]}) for n in range(3)]
GZIP = ("Content-Encoding", "gzip")


def _answers(status: int, body: bytes, *fields: tuple[str, str]) -> Script:
    async def script(exchange: Exchange) -> None:
        assert exchange.field("accept-encoding") == "identity"
        await exchange.send(response(status, body, (*JSON, *fields)))

    return script


@pytest.mark.parametrize("asked", [(), ("Accept-Encoding: gzip, br",)])
async def test_b19_coded_json_comes_plain(tmp_path: Path, asked: tuple[str, ...]) -> None:
    """Field case B19: gzip, and gzip twice, on a 200 and a 429: the client gets one consistent, plain message."""
    codings = [
        (200, BODY, gzip.compress(BODY), GZIP),
        (429, BUSY, gzip.compress(BUSY), GZIP),
        (200, BODY, gzip.compress(gzip.compress(BODY)), ("Content-Encoding", "gzip, gzip")),
        (200, BODY, zlib.compress(BODY), ("Content-Encoding", "deflate")),
    ]
    async with stack(tmp_path, Engine(_answers(200, b"{}"))) as s:
        for status, plain, coded, field in codings:
            s.up.script = _answers(status, coded, field, ("Retry-After", "3"))
            answer = await s.post(None, "/v1/chat/completions", *asked)
            assert (answer.status, answer.body) == (status, plain)
            assert "content-encoding" not in answer.headers
            assert answer.headers["retry-after"] == "3"
        await s.idle()
        assert s.totals("completed", "failed") == (4, 0)


async def test_b19_a_coded_stream_is_not_delayed(tmp_path: Path) -> None:
    """Field case B19: each event that the engine's compressor flushed is at the client before the next is made."""
    arrived = asyncio.Semaphore(0)

    async def script(exchange: Exchange) -> None:
        coder = zlib.compressobj(wbits=31)
        await exchange.send(stream_head(200, (*SSE, GZIP)))
        for delta in DELTAS:
            await exchange.send(chunk(coder.compress(delta) + coder.flush(zlib.Z_SYNC_FLUSH)))
            await arrived.acquire()
        await exchange.send(chunk(coder.compress(event("[DONE]")) + coder.flush()) + LAST_CHUNK)

    async with stack(tmp_path, Engine(script)) as s:
        client = await s.connect()
        await client.post("/v1/chat/completions", chat(stream=True))
        for delta in DELTAS:
            await client.until(delta)
            arrived.release()
        answer = await client.answer()
        assert answer.body == b"".join(DELTAS) + event("[DONE]")
        assert "content-encoding" not in answer.headers


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br"])
async def test_b19_a_coding_that_is_not_decoded_is_a_clear_502(tmp_path: Path, coding: str) -> None:
    """Field case B19: bytes nobody here can read are not passed on; the error names the coding."""
    async with stack(tmp_path, Engine(_answers(200, b"\x0b\x02\x80", ("Content-Encoding", coding)))) as s:
        answer = await s.post()
        assert (answer.status, answer.code) == (502, "upstream_broken")
        assert coding.rpartition(" ")[2] in json.dumps(answer.json)
        await s.idle()
        assert s.totals("completed", "failed") == (0, 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_b19_a_cut_coded_answer_is_no_success(tmp_path: Path, stream: bool) -> None:
    """Field cases B14, B19: a coded body whose end is missing, although its transfer ended well, is an error."""

    async def script(exchange: Exchange) -> None:
        plain = b"".join(DELTAS) + event("[DONE]") if stream else BODY
        half = gzip.compress(plain)[:-4]
        await exchange.send(stream_head(200, (*(SSE if stream else JSON), GZIP)) + chunk(half) + LAST_CHUNK)

    async with stack(tmp_path, Engine(script)) as s:
        answer = await s.post(chat(stream=stream))
        assert answer.cut if stream else (answer.status, answer.code) == (502, "upstream_broken")
        await s.idle()
        assert s.totals("completed", "failed") == (0, 1)
