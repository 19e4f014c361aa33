"""Field case B14, the other side: odd but whole answers are not taken for cut ones."""

import asyncio
from pathlib import Path

import pytest

from tests.fakes.fake_up import JSON, LAST_CHUNK, SSE, Exchange, chunk, event, head, response, stream_head
from tests.fakes.stack import Engine, chat, stack

DELTA = event({"choices": [{"index": 0, "delta": {"content": "x"}}]})
DONE = event("[DONE]")
CLOSE = ("Connection", "close")
ODD = {
    "HTTP/1.0": head(200, SSE, version="1.0") + DELTA + DONE,
    "close in the middle": stream_head(200, (*SSE, CLOSE)) + chunk(DELTA) + chunk(DONE) + LAST_CHUNK,
    "interim answers": head(100) + head(103, (("Link", "</x>; rel=preload"),)) + stream_head() + chunk(DELTA + DONE)
    + LAST_CHUNK,
    "chunk extensions": stream_head() + b"%x;a=b\r\n%s\r\n" % (len(DELTA + DONE), DELTA + DONE) + LAST_CHUNK,
    "trailers": stream_head() + chunk(DELTA + DONE) + b"0\r\nX-Sum: 1\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
async def test_b14_whole_streams_in_odd_frames(tmp_path: Path, odd: str) -> None:
    """Field case B14: served as a proper HTTP/1.1 stream with the engine's bytes, counted as completed."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(ODD[odd])
        exchange.close()

    async with stack(tmp_path, Engine(script)) as s:
        answer = await s.post(chat(stream=True))
        assert (answer.status, answer.body, answer.cut) == (200, DELTA + DONE, False)
        assert answer.headers["transfer-encoding"] == "chunked"
        await s.idle()
        assert s.totals("completed", "failed") == (1, 0)


async def test_b14_a_411_passes(tmp_path: Path) -> None:
    """Field case B14: mlx_lm wants a length; it always gets one, and its 411 would pass as it is."""
    refusal = response(411, b'{"error": "Length Required"}')

    async def script(exchange: Exchange) -> None:
        sized = exchange.field("content-length") == str(len(exchange.body))
        await exchange.send(response() if sized else refusal)

    async with stack(tmp_path, Engine(script)) as s:
        client = await s.connect()
        body = chat()
        head_line = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        await client.send(head_line + chunk(body[:5]) + chunk(body[5:]) + LAST_CHUNK)
        assert (await client.answer()).status == 200

        async def refuse(exchange: Exchange) -> None:
            await exchange.send(refusal)

        s.up.script = refuse
        answer = await s.post()
        assert (answer.status, answer.json) == (411, {"error": "Length Required"})


async def test_b14_an_answer_before_the_body_was_read(tmp_path: Path) -> None:
    """Field case B14: an engine that refuses a long body by its head and reads no more: its answer comes."""
    refusal = b'{"error": {"message": "too large for me"}}'
    over = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readuntil(b"\r\n\r\n")
        if first.startswith(b"POST"):
            writer.write(response(413, refusal, (*JSON, CLOSE)))
            await writer.drain()
            await over.wait()
        else:
            writer.write(response(200, b'{"object": "list", "data": []}', (*JSON, CLOSE)))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        async with stack(tmp_path, Engine(url), checks_request=False) as s:
            answer = await s.post(chat("x" * 8_000_000))
            assert (answer.status, answer.body) == (413, refusal)
            await s.idle()
            assert s.totals("completed", "failed") == (1, 0)
            over.set()
    finally:
        server.close()
