"""Field case B28: bodies far over 1 MiB."""

import hashlib
from pathlib import Path

import pytest

from tests.fakes.fake_up import Exchange
from tests.fakes.raw_client import RawClient
from tests.fakes.stack import CHAT, Engine, Stack, answer_ok, chat, stack

MIB = 1024 * 1024
LINES = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"


def _body(size: int) -> bytes:
    frame = chat("")
    return chat("QUJD" * ((size - len(frame)) // 4))


async def _send(s: Stack, body: bytes, framing: str) -> RawClient:
    """Send a body in one of the ways that clients do."""
    client = await s.connect()
    if framing == "chunked":
        await client.send(f"{LINES}Transfer-Encoding: chunked\r\n\r\n".encode())
        for at in range(0, len(body), 100_000):
            piece = body[at : at + 100_000]
            await client.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        await client.send(b"0\r\n\r\n")
        return client
    expect = "Expect: 100-continue\r\n" if framing == "expect" else ""
    await client.send(f"{LINES}{expect}Content-Length: {len(body)}\r\n\r\n".encode())
    if expect:
        assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await client.send(body)
    return client


@pytest.mark.parametrize("framing", ["length", "chunked", "expect"])
@pytest.mark.parametrize("mib", [1.2, 8, 40])
async def test_b28_a_large_body_arrives_unchanged(tmp_path: Path, mib: float, framing: str) -> None:
    """Field case B28: the engine gets the very bytes, however they were framed."""
    body = _body(int(mib * MIB))
    async with stack(tmp_path, Engine(answer_ok)) as s:
        answer = await (await _send(s, body, framing)).answer()
        assert answer.status == 200
        (exchange,) = s.up.requests
        assert exchange.field("Content-Length") == str(len(body)) or exchange.field("Transfer-Encoding") == "chunked"
        assert hashlib.sha256(exchange.body).digest() == hashlib.sha256(body).digest()


@pytest.mark.parametrize("mib", [2, 40])
async def test_b28_a_large_answer_arrives_unchanged(tmp_path: Path, mib: int) -> None:
    """Field case B28, the other way: an answer longer than what is held back passes whole."""
    body = b'{"choices": ["' + b"QUJD" * (mib * MIB // 4) + b'"]}'

    async def script(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
        await exchange.send(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async with stack(tmp_path, Engine(script)) as s:
        answer = await s.post()
        assert not answer.cut
        assert hashlib.sha256(answer.body).digest() == hashlib.sha256(body).digest()


@pytest.mark.parametrize("framing", ["length", "chunked", "expect"])
async def test_b28_a_body_over_the_limit_is_refused_early(tmp_path: Path, framing: str) -> None:
    """Field case B28: over http.max_body the answer is a 413 in OpenAI's shape, before the body has been sent."""
    async with stack(tmp_path, Engine(answer_ok), http={"max_body": "2MiB"}) as s:
        client = await s.connect()
        if framing == "chunked":
            await client.send(f"{LINES}Transfer-Encoding: chunked\r\n\r\n".encode())
            await client.send(b"%x\r\n%s\r\n" % (3 * MIB, b"x" * (2 * MIB + 1)))
        else:
            expect = "Expect: 100-continue\r\n" if framing == "expect" else ""
            await client.send(f"{LINES}{expect}Content-Length: {3 * MIB}\r\n\r\n".encode())
        answer = await client.answer()  # not one more byte was sent
        assert (answer.status, answer.code) == (413, "body_too_large")
        assert b"100 Continue" not in client.seen
        assert "http.max_body" in answer.json["error"]["message"]
        assert s.up.requests == []
        assert s.totals("received") == (0,)


async def test_b28_a_body_that_stops_coming_is_given_up(tmp_path: Path) -> None:
    """Field case B28: after stream.idle_timeout of silence its client is told so, and its room is free again."""
    async with stack(tmp_path, Engine(answer_ok), stream={"idle_timeout": "500ms"}, queue={"max_bytes": "1MiB"}) as s:
        stuck = await s.connect()
        await stuck.send(f"{LINES}Content-Length: {MIB}\r\n\r\n".encode() + b"{" + b" " * (MIB - 1000))
        answer = await stuck.answer()
        assert (answer.status, answer.code) == (400, "invalid_body")
        assert "stream.idle_timeout" in answer.json["error"]["message"]
        assert (await s.post(chat("x" * 10_000))).status == 200
        assert s.totals("received") == (1,)
