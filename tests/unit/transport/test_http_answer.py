"""Answers that pass through: framing for each version of HTTP, and nothing on a connection that is gone."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime

import pytest
from aiohttp import web

from iop.transport.http_answer import Answer
from iop.transport.http_connection import GUARDS
from iop.transport.http_server import Listener, listen
from tests.fakes.raw_client import RawClient

Script = Callable[[web.Request], Awaitable[web.StreamResponse]]
TYPE = {"content-type": "text/plain"}


async def _serve(script: Script) -> Listener:
    return await listen(script, "127.0.0.1", 0)


async def _talk(script: Script, *requests: bytes) -> bytes:
    """Send the requests on one connection, and return all that comes until it is closed (by the last request)."""
    listener = await _serve(script)
    reader, writer = await asyncio.open_connection(listener.host, listener.port)
    try:
        writer.write(b"".join(requests))
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()
        await listener.close()


def _request(version: str = "1.1", connection: str = "close") -> bytes:
    return f"GET / HTTP/{version}\r\nHost: localhost\r\nConnection: {connection}\r\n\r\n".encode()


def _whole(body: bytes, status: int = 200, headers: Mapping[str, str] = TYPE) -> Script:
    async def script(request: web.Request) -> web.StreamResponse:
        return Answer(request, status, headers, whole=body)

    return script


async def _pieces(request: web.Request) -> web.StreamResponse:
    answer = Answer(request, 200, TYPE)
    answer.flush()
    for piece in (b"one", b"", b"two"):
        answer.push(piece)
    await answer.write(b"three")
    return answer


def _head_and_body(raw: bytes) -> tuple[list[str], bytes]:
    head, _, body = raw.partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), body


async def test_a_whole_body_has_its_length_and_the_guards_of_every_answer() -> None:
    """Status, type, length, date, and what tells browsers and proxies how to treat it, each once."""
    lines, body = _head_and_body(await _talk(_whole(b"hello", 429), _request()))
    names = [line.partition(":")[0].lower() for line in lines[1:]]

    assert lines[0] == "HTTP/1.1 429 Too Many Requests"
    assert body == b"hello"
    assert {"content-type: text/plain", "Content-Length: 5", "Connection: close"} <= set(lines)
    assert {f"{name}: {value}" for name, value in GUARDS.items()} <= set(lines)
    assert len(names) == len(set(names))
    assert parsedate_to_datetime(next(line[6:] for line in lines if line.startswith("Date: ")))


async def test_a_body_in_pieces_is_chunked_and_ends_once() -> None:
    """HTTP/1.1: a chunk per piece, none for an empty one (it would end the body), and one end."""
    lines, body = _head_and_body(await _talk(_pieces, _request()))

    assert "Transfer-Encoding: chunked" in lines
    assert body == b"3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n"


async def test_a_body_in_pieces_ends_with_the_connection_for_http_1_0() -> None:
    """HTTP/1.0 knows no chunks: whatever it asks, the connection ends with the body."""
    lines, body = _head_and_body(await _talk(_pieces, _request("1.0", "keep-alive")))

    assert lines[0] == "HTTP/1.0 200 OK"
    assert not [line for line in lines if re.match(r"(?i)transfer-encoding|content-length|connection", line)]
    assert body == b"onetwothree"


@pytest.mark.parametrize(
    ("version", "asked", "told"), [("1.0", "keep-alive", "Connection: keep-alive"), ("1.1", "keep-alive", None)]
)
async def test_a_connection_that_is_kept_serves_the_next_request(version: str, asked: str, told: str | None) -> None:
    """A whole body leaves the connection usable; only HTTP/1.0 must be told so."""
    raw = await _talk(_whole(b"hi"), _request(version, asked), _request(version))
    answers = raw.split(f"HTTP/{version} ".encode())[1:]

    assert [answer.startswith(b"200 OK") for answer in answers] == [True, True]
    found = re.search(rb"Connection: [a-z-]+", answers[0])
    assert (found.group().decode() if found else None) == told


@pytest.mark.parametrize("status", [204, 304])
async def test_a_status_without_a_body_gets_none(status: int) -> None:
    """Whatever an engine sent behind it, which a client would take for the next answer."""
    lines, body = _head_and_body(await _talk(_whole(b"stray", status), _request()))

    assert lines[0].startswith(f"HTTP/1.1 {status} ")
    assert body == b""
    assert not [line for line in lines if re.match(r"(?i)transfer-encoding|content-length", line)]


async def test_a_body_that_nobody_has_named_is_bytes() -> None:
    """A browser must not guess."""
    lines, _ = _head_and_body(await _talk(_whole(b"?", headers={}), _request()))

    assert "Content-Type: application/octet-stream" in lines


async def test_an_unknown_status_passes() -> None:
    """Engines may send any of three digits."""
    lines, _ = _head_and_body(await _talk(_whole(b"", 799), _request()))

    assert lines[0] == "HTTP/1.1 799 "


@pytest.mark.parametrize("evil", ["a\r\nx: y", "a\ny", "a\ry"])
async def test_a_header_with_a_line_end_is_refused(evil: str) -> None:
    """No value can become a header, or an answer, of its own."""
    refused: list[ValueError] = []

    async def script(request: web.Request) -> web.StreamResponse:
        try:
            return Answer(request, 200, {"x-a": evil})
        except ValueError as error:
            refused.append(error)
            return Answer(request, 200, TYPE, whole=b"")

    await _talk(script, _request())

    assert len(refused) == 1


async def test_a_client_that_does_not_read_is_known_and_its_catching_up_is_told() -> None:
    """`is_behind` from full buffers on, until what waits has been read; then the callback comes once."""
    told: list[bool] = []
    over = asyncio.Event()

    async def script(request: web.Request) -> web.StreamResponse:
        answer = Answer(request, 200, TYPE)
        while not answer.is_behind:
            answer.push(bytes(64 * 1024))
            await asyncio.sleep(0)
        answer.when_caught_up(lambda: told.append(answer.is_behind))
        await over.wait()
        return answer

    listener = await _serve(script)
    client = await RawClient.connect((listener.host, listener.port), receive_buffer=4096)
    try:
        await client.send(_request())
        while not told:
            assert await asyncio.wait_for(client.reader.read(64 * 1024), 20)
    finally:
        over.set()
        client.reset()
        await listener.close()
    assert told == [False]


async def test_nothing_is_written_to_a_client_that_is_gone() -> None:
    """`push` raises, and the server goes on."""
    raised: list[type[BaseException]] = []

    async def script(request: web.Request) -> web.StreamResponse:
        answer = Answer(request, 200, TYPE)
        assert request.transport is not None
        request.transport.abort()
        assert answer.is_cut
        try:
            answer.push(b"late")
        except ConnectionResetError as error:
            raised.append(type(error))
            raise
        return answer

    assert await _talk(script, _request()) == b""
    assert raised == [ConnectionResetError]
