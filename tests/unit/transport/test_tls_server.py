"""The TLS listener: what is not TLS, what is silent, what is too much, and its end."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from typing import ClassVar

import pytest

from iop.transport import tls_server
from iop.transport.tls_server import TlsServer, serve_tls
from tests.fakes.authority import Authority
from tests.fakes.until import until

uvloop = pytest.importorskip("uvloop")
LOOPS = pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@contextlib.asynccontextmanager
async def served(tmp_path, host: str = "127.0.0.1") -> AsyncIterator[tuple[TlsServer, Authority]]:
    """An echo server over TLS."""
    authority = Authority(tmp_path)
    server = await serve_tls(Echo, host, 0, authority.server())
    try:
        yield server, authority
    finally:
        server.close()
        await server.wait_closed()


async def echo(server: TlsServer, authority: Authority) -> bytes:
    """What comes back for `hi` over TLS."""
    reader, writer = await asyncio.open_connection(*server.address, ssl=authority.trust())
    writer.write(b"hi")
    data = await reader.readexactly(2)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return data


async def left(server: TlsServer, data: bytes) -> bytes:
    """Send plain bytes; return what came until the server closed."""
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(data)
    got = b""
    with contextlib.suppress(ConnectionError):
        got = await reader.read()
    writer.close()
    return got


@LOOPS
@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0\0\0\x50\0{" + b"x" * 80], ids=["http", "link"]
)
def test_what_is_no_tls_is_told_once_per_peer(loops, data, tmp_path, caplog):
    """Plain clients are closed, one line tells why, and TLS clients are served before and after."""

    async def scenario() -> None:
        async with served(tmp_path) as (server, authority):
            for _ in range(3):
                assert await left(server, data) == b""
                assert await echo(server, authority) == b"hi"

    with caplog.at_level(logging.WARNING), asyncio.Runner(loop_factory=loops) as runner:
        runner.run(scenario())
    (record,) = caplog.records
    assert record.getMessage().endswith("refused: it speaks no TLS, and this port speaks nothing else")
    assert record.exc_info is None


@LOOPS
def test_a_silent_peer_does_not_keep_its_connection(loops, tmp_path, caplog, monkeypatch):
    """Nothing within the handshake's time: closed, one line, and others are served meanwhile."""
    monkeypatch.setattr(tls_server, "HANDSHAKE_WITHIN", 0.3)

    async def scenario() -> None:
        async with served(tmp_path) as (server, authority):
            silent = asyncio.ensure_future(left(server, b""))
            assert await echo(server, authority) == b"hi"
            assert await silent == b""
            await until(lambda: caplog.records)

    with caplog.at_level(logging.WARNING), asyncio.Runner(loop_factory=loops) as runner:
        runner.run(scenario())
    assert [record.getMessage().partition("refused: ")[2] for record in caplog.records] == [
        "no TLS handshake within 0.3 s"
    ]


@LOOPS
def test_a_peer_that_leaves_in_the_handshake_is_told(loops, tmp_path, caplog):
    """A port check and a client that does not trust the certificate look the same from here."""

    async def scenario() -> None:
        async with served(tmp_path) as (server, _):
            other = Authority(tmp_path, "other")
            with pytest.raises(OSError, match="certificate verify failed"):
                await asyncio.open_connection(*server.address, ssl=other.trust())
            await until(lambda: caplog.records)

    with caplog.at_level(logging.WARNING), asyncio.Runner(loop_factory=loops) as runner:
        runner.run(scenario())
    (record,) = caplog.records
    assert "does not" in record.getMessage()
    assert "this certificate" in record.getMessage()


async def test_too_many_handshakes_are_turned_away(tmp_path, monkeypatch):
    """Beyond the bound a connection is closed at once; when one is free again, it is served."""
    monkeypatch.setattr(tls_server, "MAX_HANDSHAKES", 2)
    async with served(tmp_path) as (server, authority):
        idle = [await asyncio.open_connection(*server.address) for _ in range(2)]
        await until(lambda: len(server._shaking) == 2)
        assert await left(server, b"") == b""
        for _, writer in idle:
            writer.close()
        await until(lambda: len(server._shaking) == 0)
        assert await echo(server, authority) == b"hi"


async def test_closing_frees_the_port_and_ends_handshakes_but_no_connection(tmp_path):
    """What was served goes on; a handshake under way is cut; the address can be bound again."""
    async with served(tmp_path) as (server, authority):
        reader, writer = await asyncio.open_connection(*server.address, ssl=authority.trust())
        _, silent = await asyncio.open_connection(*server.address)
        await until(lambda: len(server._shaking) == 1)
        server.close()
        await server.wait_closed()
        with socket.create_server(server.address):
            writer.write(b"still")
            assert await reader.readexactly(5) == b"still"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*server.address)
        writer.close()
        silent.close()


async def test_closing_before_the_first_step_frees_the_port_too(tmp_path):
    """A listener that is closed at once leaves no socket."""
    server = await serve_tls(Echo, "127.0.0.1", 0, Authority(tmp_path).server())
    server.close()
    await server.wait_closed()
    with socket.create_server(server.address):
        pass


async def test_a_taken_port_is_an_oserror_and_leaves_nothing(tmp_path):
    """The address in use is told as the system tells it."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await serve_tls(Echo, "127.0.0.1", taken.getsockname()[1], Authority(tmp_path).server())


class Flaky(socket.socket):
    """A listener that fails as often as `failures` says."""

    failures: ClassVar[list[OSError]] = []

    def accept(self):
        if self.failures:
            raise self.failures.pop(0)
        return super().accept()


@pytest.mark.parametrize("windows", [False, True], ids=["readers", "windows"])
async def test_when_no_connection_can_be_accepted_it_tries_again(tmp_path, monkeypatch, caplog, windows):
    """Out of file handles for a while: one error line, and serving goes on afterwards; on each kind of loop."""
    monkeypatch.setattr(tls_server, "EXHAUSTED_PAUSE", 0.01)
    monkeypatch.setattr(Flaky, "failures", [OSError(24, "Too many open files"), ConnectionAbortedError()])
    loop = asyncio.get_running_loop()
    if windows:
        plain, add_reader = loop.sock_accept, loop.add_reader

        async def accept(sock: socket.socket):
            if Flaky.failures:
                raise Flaky.failures.pop(0)
            return await plain(sock)

        def no_readers(what, *args):
            if isinstance(what, Flaky):
                raise NotImplementedError
            add_reader(what, *args)

        monkeypatch.setattr(loop, "sock_accept", accept)
        monkeypatch.setattr(loop, "add_reader", no_readers)
    listener = Flaky()
    listener.bind(("127.0.0.1", 0))
    authority = Authority(tmp_path)
    server = await serve_tls(Echo, "127.0.0.1", 0, authority.server(), listener)
    assert await echo(server, authority) == b"hi"
    server.close()
    await server.wait_closed()
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR] == [
        "no more connections can be accepted for now: [Errno 24] Too many open files"
    ]


@LOOPS
def test_a_stop_leaves_new_connections_in_a_held_socket_and_loses_none(loops, tmp_path):
    """Who is in the handshake is served; who comes after the stop waits in the socket for the next server."""

    async def scenario() -> None:
        authority = Authority(tmp_path)
        with socket.create_server(("127.0.0.1", 0), backlog=64) as held:
            first = await serve_tls(Echo, "127.0.0.1", 0, authority.server(), held.dup())
            early = [asyncio.ensure_future(echo(first, authority)) for _ in range(20)]
            await asyncio.sleep(0)
            first.stop_accepting()
            late = [asyncio.ensure_future(echo(first, authority)) for _ in range(20)]
            second = await serve_tls(Echo, "127.0.0.1", 0, authority.server(), held.dup())
            async with asyncio.timeout(30):
                assert set(await asyncio.gather(*early, *late)) == {b"hi"}
                await first.shaken()
            for server in (first, second):
                server.close()
                await server.wait_closed()

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(scenario())
