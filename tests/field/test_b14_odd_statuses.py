"""Field case B14: what the status of an engine's answer says about its body, whatever its headers claim."""

import gzip
from pathlib import Path

import pytest

from tests.fakes.fake_up import JSON, LAST_CHUNK, SSE, Exchange, Fields, chunk, event, head, response, stream_head
from tests.fakes.stack import CHAT, RESPONSES, Engine, Stack, chat, stack

CHUNKED = ("Transfer-Encoding", "chunked")
UPGRADE: Fields = (("Upgrade", "websocket"), ("Connection", "Upgrade"))


def saying(said: bytes, *, close: bool = False) -> Engine:
    """An engine that gives this answer to everything."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(said)
        if close:
            exchange.close()

    return Engine(script)


async def _asked(s: Stack, path: str) -> tuple[int, bytes]:
    answer = await s.post({"model": "m", "messages": [], "input": "x", "stream": True}, path)
    assert not answer.cut
    await s.idle()
    return answer.status, answer.body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("said", [head(101, UPGRADE), head(99, (("Content-Length", "0"),)).replace(b" 99 ", b" 099 ")])
async def test_b14_an_interim_status_is_no_answer(tmp_path: Path, said: bytes, *, stream: bool) -> None:
    """An engine that changes the protocol, or says less than 200, does not change the client's connection: 502."""
    async with stack(tmp_path, saying(said)) as s:
        answer = await s.post(chat(stream=stream))
        assert (answer.status, answer.code) == (502, "upstream_broken")
        await s.idle()
        assert s.totals("failed", "returned") == (1, 0)


@pytest.mark.parametrize("fields", [(), (*SSE, CHUNKED)], ids=["plain", "as events"])
async def test_b14_no_content_is_never_followed_by_events(tmp_path: Path, fields: Fields) -> None:
    """A 204 ends with its headers: bytes behind them would be read as the next answer on the connection."""
    async with stack(tmp_path, saying(head(204, fields))) as s:
        client = await s.connect()
        body = chat(stream=True)
        request = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        await client.send(request + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        seen = await client.until(b'"ok"}')
        first, second = seen.split(b"\r\n\r\n", 1)
        assert first.startswith(b"HTTP/1.1 204 ")
        assert second.startswith(b"HTTP/1.1 200 ")
        await s.idle()
        assert s.totals("completed", "failed") == (1, 0)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize(("status", "counted"), [(500, "failed"), (400, "completed")])
async def test_b14_an_error_answer_typed_as_events_passes(tmp_path: Path, path: str, status: int, counted: str) -> None:
    """Its status tells the failure; nothing is added to the engine's own words."""
    told = event({"error": {"message": "own"}})
    async with stack(tmp_path, saying(stream_head(status) + chunk(told) + LAST_CHUNK)) as s:
        assert await _asked(s, path) == (status, told)
        assert s.totals(counted) == (1,)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_b14_a_cut_error_answer_is_a_502(tmp_path: Path, path: str) -> None:
    """Half an error answer is no answer, whatever its type."""
    async with stack(tmp_path, saying(stream_head(500) + chunk(event({"error": {}})), close=True)) as s:
        status, body = await _asked(s, path)
        assert (status, b"upstream_broken" in body) == (502, True)


async def test_b14_a_transfer_coding_is_taken_off(tmp_path: Path) -> None:
    """Gzip as a transfer coding reaches the client decoded, as its own answer has no such coding."""
    said = head(200, (*JSON, ("Transfer-Encoding", "gzip, chunked"))) + chunk(gzip.compress(b'{"a": 1}')) + LAST_CHUNK
    async with stack(tmp_path, saying(said)) as s:
        answer = await s.post()
        assert (answer.status, answer.body) == (200, b'{"a": 1}')


async def test_b14_what_the_engine_sent_wrongly_is_told_in_one_line(tmp_path: Path) -> None:
    """The parser's picture of the bytes stays out of the message."""
    async with stack(tmp_path, saying(response(200, b"{}", (*JSON, ("Content-Length", "9"))))) as s:
        answer = await s.post()
        assert (answer.status, answer.json["error"]["message"].rpartition(": ")[2]) == (
            502,
            "Duplicate Content-Length.",
        )
