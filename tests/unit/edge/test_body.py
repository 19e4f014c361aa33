"""Reading bodies: bounded as sent and as decoded."""

import gzip
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from iop.edge.body import expect_handler, read_body
from iop.edge.stock import BodyStock
from iop.transport.http_border import error_middleware
from iop.transport.http_server import Listener, listen
from tests.fakes.raw import raw, request
from tests.fakes.raw_client import RawClient

LIMIT = 1000


async def _handler(request: web.Request) -> web.Response:
    return web.Response(body=await read_body(request, LIMIT, BodyStock().open(LIMIT), silence=20.0))


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    """A server that answers with the body it read."""
    app = web.Application(middlewares=[error_middleware])
    app.router.add_route("*", "/{tail:.*}", _handler, expect_handler=expect_handler)
    made = await listen(app, "127.0.0.1", 0)
    yield made
    await made.close()


async def _post(listener: Listener, body: bytes, *headers: str) -> tuple[int, bytes]:
    answer = await raw(listener.host, listener.port, request("/", body, headers=headers))
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), rest


async def test_known_codings_are_decoded_once(listener: Listener) -> None:
    """The body is what was sent before it was coded."""
    assert await _post(listener, gzip.compress(b"hello"), "Content-Encoding: gzip") == (200, b"hello")


async def test_one_byte_at_a_time_decodes_too(listener: Listener) -> None:
    """A coded body may be cut anywhere."""
    body = gzip.compress(b"hello" * 50)
    lines = ("POST / HTTP/1.1", "Host: a", "Content-Encoding: gzip", "Transfer-Encoding: chunked", "Connection: close")
    data = "\r\n".join((*lines, "", "")).encode()
    data += b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    assert (await raw(listener.host, listener.port, data)).endswith(b"\r\n\r\n" + b"hello" * 50)


@pytest.mark.parametrize(
    ("status", "coding", "body"),
    [
        (413, "identity", b"x" * (LIMIT + 1)),
        (413, "gzip", gzip.compress(b"\0" * 50_000_000, 1)),
        (400, "gzip", b'{"plain": true}'),
        (400, "gzip", gzip.compress(b"hello" * 100)[:-9]),
        (400, "gzip", gzip.compress(b"hello", mtime=0) + b"more"),
        (415, "br", b"hello"),
        (415, "gzip, gzip", gzip.compress(gzip.compress(b"hello", mtime=0))),
    ],
    ids=["long", "bomb", "not-gzip", "cut", "trailing", "brotli", "stacked"],
)
async def test_hostile_bodies_are_4xx(listener: Listener, status: int, coding: str, body: bytes) -> None:
    """Too long (as sent or decoded), corrupt, cut and unknown codings are told apart; memory stays bounded."""
    assert (await _post(listener, body, f"Content-Encoding: {coding}"))[0] == status


async def test_a_body_of_exactly_the_limit_passes(listener: Listener) -> None:
    """The limit itself is allowed."""
    assert (await _post(listener, b"x" * LIMIT))[0] == 200


async def test_chunked_bodies_are_bounded_too(listener: Listener) -> None:
    """A body without a length is cut off at the limit."""
    data = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    data += (b"3e8\r\n" + b"x" * 1000 + b"\r\n") * 3 + b"0\r\n\r\n"
    assert b" 413 " in (await raw(listener.host, listener.port, data)).split(b"\r\n")[0]


async def test_expect_continue_is_granted(listener: Listener) -> None:
    """`Expect: 100-continue` gets its interim answer; another expectation is a 400."""
    good = await raw(listener.host, listener.port, request("/", b"hi", headers=("Expect: 100-continue",)))
    bad = await raw(listener.host, listener.port, request("/", b"hi", headers=("Expect: magic",)))

    assert good.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")
    assert b" 400 " in bad.split(b"\r\n")[0]


async def test_a_body_that_is_refused_unread_is_not_asked_for(listener: Listener) -> None:
    """With `Expect: 100-continue` a refusal by length or coding comes instead of the interim answer, not after it."""
    for header, status in (("Content-Length: 1001", 413), ("Content-Encoding: br\r\nContent-Length: 5", 415)):
        head = f"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n{header}\r\n\r\n"
        client = await RawClient.connect((listener.host, listener.port))
        await client.send(head.encode())
        assert (await client.answer()).status == status
        assert client.seen.count(b"HTTP/1.1") == 1


async def test_an_http_1_0_client_gets_no_interim_answer(listener: Listener) -> None:
    """HTTP/1.0 knows no 100: the body is read without it."""
    head = b"POST / HTTP/1.0\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi"
    assert (await raw(listener.host, listener.port, head)).startswith(b"HTTP/1.0 200")
