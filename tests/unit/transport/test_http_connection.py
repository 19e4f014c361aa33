"""One connection: JSON answers to everything, clients that shut their sending side, the last answer."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable

import pytest
import uvloop
from aiohttp import web

from iop.transport import http_connection
from iop.transport.http_connection import ON_ITS_WAY, client_must_stay
from iop.transport.http_server import JsonServer, listen
from tests.fakes.raw import raw, request
from tests.fakes.raw_client import RawClient

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


async def _echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read(), headers={"x-encoding": request.headers.get("content-encoding", "")})


async def _broken(_request: web.Request) -> web.Response:
    raise ValueError("a fault")


def _app() -> web.Application:
    app = web.Application()
    app.router.add_post("/echo", _echo)
    app.router.add_post("/broken", _broken)
    return app


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"GET\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
    ],
    ids=["tls", "no-version", "two-framings", "two-lengths", "long-header"],
)
async def test_what_is_not_http_gets_a_json_400_and_a_close(data: bytes) -> None:
    """Bytes the parser refuses are answered with the error object, and the connection is closed."""
    listener = await listen(_app(), "127.0.0.1", 0)
    try:
        answer = await raw(listener.host, listener.port, data)
    finally:
        await listener.close()

    head, _, body = answer.partition(b"\r\n\r\n")
    assert b" 400 " in head.split(b"\r\n")[0]
    assert b"application/json" in head
    assert b"x-request-id: req_" in head
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("hosts", ["", "Host: a\r\nHost: b\r\n"])
async def test_no_host_and_two_hosts_are_invalid_host(hosts: str) -> None:
    """What the parser says of `Host` has the code that the host check has."""
    listener = await listen(_app(), "127.0.0.1", 0)
    try:
        answer = await raw(listener.host, listener.port, f"GET /echo HTTP/1.1\r\n{hosts}\r\n".encode())
    finally:
        await listener.close()

    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_host"


async def test_a_fault_of_a_handler_is_a_json_500_without_its_text() -> None:
    """An exception that nobody caught tells the client nothing of itself."""
    listener = await listen(_app(), "127.0.0.1", 0)
    try:
        answer = await raw(listener.host, listener.port, request("/broken"))
    finally:
        await listener.close()

    assert b" 500 " in answer.split(b"\r\n")[0]
    assert b"a fault" not in answer


async def test_a_half_closed_client_gets_an_answer_that_waits_for_nobody() -> None:
    """Request and FIN come together, or the FIN a moment later: an immediate answer is given each time."""
    listener = await listen(_app(), "127.0.0.1", 0)
    try:
        sent = request("/echo", b"hello")
        answers = [await raw(listener.host, listener.port, sent, shut=True) for _ in range(50)]
    finally:
        await listener.close()

    assert {answer[-5:] for answer in answers} == {b"hello"}


async def test_a_half_closed_client_is_gone_for_an_answer_that_takes_time() -> None:
    """A handler that waits is cancelled, as for a client that closed; the connection ends without an answer."""
    cancelled = asyncio.Event()

    async def waits(_request: web.Request) -> web.Response:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    app = _app()
    app.router.add_post("/waits", waits)
    listener = await listen(app, "127.0.0.1", 0)
    try:
        assert await raw(listener.host, listener.port, request("/waits"), shut=True) == b""
        async with asyncio.timeout(20):
            await cancelled.wait()
    finally:
        await listener.close()


async def test_an_answer_that_needs_others_is_never_given_to_a_half_closed_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However soon it comes; and without a word in the log. What needs nobody is answered on the same connection."""

    async def needs(request: web.Request) -> web.Response:
        client_must_stay(request)
        for _ in range(3):
            await asyncio.sleep(0)
        return web.Response(body=b"other")

    app = _app()
    app.router.add_post("/needs", needs)
    listener = await listen(app, "127.0.0.1", 0)
    try:
        needy, own = request("/needs"), request("/echo", b"hello")
        assert {await raw(listener.host, listener.port, needy, shut=True) for _ in range(20)} == {b""}
        both = await raw(listener.host, listener.port, needy.replace(b"Connection: close\r\n", b"") + own)
    finally:
        await listener.close()

    assert both.index(b"other") < both.index(b"hello")
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_the_last_answer_of_a_connection_says_so() -> None:
    """A connection that retires serves what comes in time, with `Connection: close`, and ends."""
    listener = await listen(_app(), "127.0.0.1", 0)
    try:
        client = await RawClient.connect((listener.host, listener.port))
        await client.send(_again(b"one"))
        await client.until(b"one")
        retiring = asyncio.ensure_future(listener.retire(30, 30))
        await asyncio.sleep(0)
        await client.send(_again(b"two"))
        await client.ended()
        assert await retiring
        first, second = [part.lower() for part in bytes(client.seen).split(b"HTTP/1.1 200 OK")[1:]]
        client.close()
    finally:
        await listener.close()

    assert (b"connection: close" in first, b"connection: close" in second) == (False, True)
    assert second.endswith(b"two")


async def test_a_retiring_connection_stays_open_as_long_as_its_client_may_use_it_again() -> None:
    """The time counts from its last answer; for one that is idle for longer, a request may yet be on its way."""
    listener = await listen(_app(), "127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    clients = [await RawClient.connect((listener.host, listener.port)) for _ in range(2)]
    try:
        server = listener.runner.server
        assert isinstance(server, JsonServer)
        for client in clients:
            await client.send(_again(b"one"))
            await client.until(b"one")
        used, idle = server._handlers()
        idle._idle_since -= 3600
        began = loop.time()
        retiring = asyncio.ensure_future(listener.retire(600, 60))
        await asyncio.sleep(0)

        assert used._retirement is not None
        assert idle._retirement is not None
        assert used._retirement.when() == used._idle_since + 600
        assert began + ON_ITS_WAY <= idle._retirement.when() <= loop.time() + ON_ITS_WAY
        used._idle_since -= 3600
        for handler in (used, idle):
            handler._retire_if_idle()
        assert await retiring
    finally:
        for client in clients:
            client.close()
        await listener.close()


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_request_that_came_while_the_process_could_not_read_is_served(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The time of an idle connection is over, but its client has sent: that counts, not who looks first."""

    async def story(parts: tuple[bytes, ...]) -> bytes:
        listener = await listen(_app(), "127.0.0.1", 0)
        try:
            client = await RawClient.connect((listener.host, listener.port))
            await client.send(_again(b"one"))
            await client.until(b"one")
            retiring = asyncio.ensure_future(listener.retire(0.05, 30))
            await asyncio.sleep(0)
            sock = client.writer.get_extra_info("socket")
            for part in parts:
                assert os.write(sock.fileno(), part) == len(part)
                time.sleep(0.1)  # noqa: ASYNC251 - the loop has no turn meanwhile: that is the test
                await asyncio.sleep(0)
            await client.ended()
            assert await retiring
            client.close()
            return bytes(client.seen)
        finally:
            await listener.close()

    whole = _again(b"two")
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(story((whole,))).endswith(b"two")
        assert runner.run(story((whole[:20], whole[20:]))).endswith(b"two")


def _again(body: bytes) -> bytes:
    return request("/echo", body).replace(b"Connection: close\r\n", b"")


async def test_a_client_that_does_not_say_what_it_wants_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, or a head byte by byte, ends at its time, on a used connection too; an answer may take long, and a
    connection may be idle between two requests.
    """
    monkeypatch.setattr(http_connection, "HEAD_WITHIN", 0.3)
    app = _app()
    released = asyncio.Event()

    async def slow(_request: web.Request) -> web.Response:
        await released.wait()
        return web.Response(text="slow")

    app.router.add_get("/slow", slow)
    listener = await listen(app, "127.0.0.1", 0)
    silent, dripping, used, patient, idle = [await RawClient.connect((listener.host, listener.port)) for _ in range(5)]
    try:
        await patient.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        await idle.send(_again(b"one"))
        await idle.until(b"one")
        await used.send(_again(b"one") + b"POST /echo")
        await used.until(b"one")
        await used.send(b" HTTP/1.1\r\n")
        feeding = asyncio.ensure_future(_drip(dripping))
        for client in (silent, dripping, used):
            with contextlib.suppress(ConnectionResetError):
                await client.ended()
        await feeding
        assert (bytes(silent.seen), bytes(dripping.seen), used.seen.count(b"HTTP/1.1")) == (b"", b"", 1)
        released.set()
        await patient.until(b"slow")
        await idle.send(_again(b"two"))
        await idle.until(b"two")
    finally:
        for client in (silent, dripping, used, patient, idle):
            client.close()
        await listener.close()


async def _drip(client: RawClient) -> None:
    """Send a head that never ends, until the server closes."""
    with contextlib.suppress(ConnectionError):
        await client.send(b"GET / HTTP/1.1\r\n")
        while not client.reader.at_eof():
            await client.send(b"x: y\r\n")
            await asyncio.sleep(0.02)  # the pace of a slow client


async def test_what_aiohttp_answers_by_itself_is_json_and_every_answer_is_guarded() -> None:
    """An `Expect` that nobody knows, a fault, and a good answer: JSON where it is ours, and of no use to a web page."""
    listener = await listen(_app(), "127.0.0.1", 0)
    try:
        for data, status in (
            (request("/echo", b"hi", headers=("Expect: the-unexpected",)), b"400"),
            (request("/broken", b"hi"), b"500"),
            (request("/echo", b"hi"), b"200"),
            (b"no http\r\n\r\n", b"400"),
        ):
            head, _, body = (await raw(listener.host, listener.port, data)).partition(b"\r\n\r\n")
            assert head.split(b" ")[1] == status
            assert body == b"hi" or set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
            for name, value in http_connection.GUARDS.items():
                assert head.count(f"{name}: {value}".encode()) == 1, head
    finally:
        await listener.close()
