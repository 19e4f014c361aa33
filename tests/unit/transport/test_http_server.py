"""The JSON-only server shell."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from aiohttp import web

from iop.transport.http_server import Listener, listen
from iop.transport.listening import PortBusy
from tests.fakes.authority import Authority
from tests.fakes.raw import raw, request
from tests.fakes.raw_client import RawClient
from tests.fakes.until import until

LARGE = 20_000_000


async def _echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read(), headers={"x-encoding": request.headers.get("content-encoding", "")})


def _app() -> web.Application:
    app = web.Application()
    app.router.add_post("/echo", _echo)
    return app


async def test_bodies_arrive_as_sent() -> None:
    """A compressed body is not decoded by the server: the handler does it, under its own limit."""
    listener = await listen(_app(), "127.0.0.1", 0)
    try:
        sent = request("/echo", b"\x1f\x8bnot really gzip", headers=("Content-Encoding: gzip",))
        answer = await raw(listener.host, listener.port, sent)
    finally:
        await listener.close()

    assert answer.endswith(b"\x1f\x8bnot really gzip")


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (b"GET / HTTP/1.1\r\nAuthorization\x00: Bearer s3cret\r\n\r\n", "InvalidHeader"),
        (b"GET / HTTP/1.1\r\nAuthorization: Bearer s3cret" + b"x" * 70_000 + b"\r\n\r\n", "LineTooLong"),
        (b"s3cret\r\n\r\n", "BadStatusLine"),
    ],
)
async def test_bytes_that_are_no_http_are_one_line_without_them(
    sent: bytes, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log tells what kind of fault it was, and quotes nothing: a key may stand in what cannot be read."""
    caplog.set_level("DEBUG")
    listener = await listen(_app(), "127.0.0.1", 0)
    try:
        assert b" 400 " in await raw(listener.host, listener.port, sent)
    finally:
        await listener.close()
    (line,) = [record for record in caplog.records if record.name == "iop.transport.http_connection"]
    fields = line.fields  # type: ignore[attr-defined]
    assert (line.getMessage(), fields["peer"], fields["status"]) == ("malformed HTTP", "127.0.0.1", 400)
    assert fields["reason"] in {kind, "BadHttpMessage", "BadHttpMethod"}
    assert "s3cret" not in caplog.text + str(fields)


async def test_a_taken_port_names_its_owner() -> None:
    """Listening on a taken port raises PortBusy with the address."""
    listener = await listen(_app(), "127.0.0.1", 0)
    try:
        with pytest.raises(PortBusy, match=str(listener.port)):
            await listen(_app(), "127.0.0.1", listener.port)
    finally:
        await listener.close()


async def _large(_request: web.Request) -> web.Response:
    return web.Response(body=b"x" * LARGE)


async def test_finish_lets_a_slow_reader_have_the_rest() -> None:
    """An answer that has begun goes out whole, an idle connection is closed, nobody new is let in."""
    app = _app()
    app.router.add_get("/large", _large)
    listener = await listen(app, "127.0.0.1", 0)
    address = listener.host, listener.port
    idle = await RawClient.connect(address)
    slow = await RawClient.connect(address, receive_buffer=4096)
    await slow.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    await slow.until(b"xxx")
    finishing = asyncio.ensure_future(listener.finish(60))
    await idle.ended()
    answer = await slow.answer()
    await finishing
    with pytest.raises(ConnectionError):
        await RawClient.connect(address)
    await listener.close()
    idle.close()

    assert (len(answer.body), answer.cut) == (LARGE, False)


async def test_finish_ends_at_its_time_and_close_cuts() -> None:
    """A client that does not read holds the stop no longer than it may."""
    app = _app()
    app.router.add_get("/large", _large)
    listener = await listen(app, "127.0.0.1", 0)
    deaf = await RawClient.connect((listener.host, listener.port), receive_buffer=4096)
    await deaf.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    await deaf.until(b"xxx")
    await listener.finish(0.05)
    await listener.close()
    await listener.finish(60)  # after the close there is nothing to finish

    assert (await deaf.answer()).cut


async def _held(sock: socket.socket, app: web.Application, tls: Authority | None = None) -> Listener:
    return await listen(app, "127.0.0.1", 0, tls.server() if tls else None, sock=sock.dup())


@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "tls"])
async def test_a_held_socket_goes_from_one_server_to_the_next(tmp_path: Path, with_tls: bool) -> None:
    """What the first has begun it finishes; who connects meanwhile waits, unrefused, and the second serves him."""
    gate, begun = asyncio.Event(), asyncio.Event()

    async def slow(_request: web.Request) -> web.Response:
        begun.set()
        await gate.wait()
        return web.Response(body=b"slow")

    app = _app()
    app.router.add_post("/slow", slow)
    tls = Authority(tmp_path) if with_tls else None
    trust = tls.trust() if tls else None
    with socket.create_server(("127.0.0.1", 0), backlog=64) as held:
        first = await _held(held, app, tls)
        assert (first.host, first.port) == held.getsockname()
        early = asyncio.ensure_future(raw(first.host, first.port, request("/slow"), ssl=trust))
        await begun.wait()
        retiring = asyncio.ensure_future(first.retire(0.01, 60))
        await asyncio.sleep(0)
        late = [
            asyncio.ensure_future(raw(first.host, first.port, request("/echo", b"late"), ssl=trust)) for _ in range(5)
        ]
        gate.set()
        assert await retiring
        await first.close()
        second = await _held(held, _app(), tls)
        try:
            async with asyncio.timeout(60):
                answers = await asyncio.gather(early, *late)
        finally:
            await second.close()

    assert [answer.rpartition(b"\r\n")[2] for answer in answers] == [b"slow", *[b"late"] * 5]


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("turns", range(8))
def test_who_is_just_being_accepted_is_served(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], turns: int
) -> None:
    """Whoever connects around the moment at which the server stops gets an answer: from it, or from the next one."""

    async def story() -> list[bytes]:
        with socket.create_server(("127.0.0.1", 0), backlog=64) as held:
            first = await _held(held, _app())
            clients = [socket.create_connection(held.getsockname()) for _ in range(3)]
            for client in clients:
                client.sendall(request("/echo", b"hello"))
            for _ in range(turns):
                await asyncio.sleep(0)
            assert await first.retire(0.01, 60)
            await first.close()
            second = await _held(held, _app())
            try:
                return [await asyncio.to_thread(_all_of, client) for client in clients]
            finally:
                await second.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert [answer.rpartition(b"\r\n")[2] for answer in runner.run(story())] == [b"hello"] * 3


def _all_of(client: socket.socket) -> bytes:
    client.settimeout(60)
    with client, client.makefile("rb") as file:
        return file.read()


async def test_retirement_ends_at_its_time() -> None:
    """A handler that takes longer is left for `finish` and `close`."""

    async def hang(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    app = _app()
    app.router.add_post("/hang", hang)
    listener = await listen(app, "127.0.0.1", 0)
    client = await RawClient.connect((listener.host, listener.port))
    await client.send(request("/hang"))
    await until(lambda: bool(listener.runner.server and listener.runner.server.connections))
    assert not await listener.retire(0.01, 0.05)
    await listener.close()
    assert await listener.retire(0.01, 0.05)  # nothing is left
    client.close()
