"""A connection to an engine against a raw TCP engine: each kind of break by its name, leaving, back-pressure."""

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from pathlib import Path

import pytest
import uvloop

from iop.transport.engine_answer import EngineError
from iop.transport.engine_http import EngineHttp
from tests.fakes.engine_client import fetch, read, read_all
from tests.fakes.fake_up import LAST_CHUNK, Exchange, FakeUp, chunk, head, stream_head
from tests.fakes.until import until

DEADLINE = 20.0


async def test_not_http_is_broken():
    """An answer that is not HTTP is told as such."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        exchange.close()

    with pytest.raises(EngineError) as caught:
        await fetch(script)
    assert caught.value.failure == "broken"


async def test_a_cut_within_the_headers_is_not_a_reset():
    """Once a status line came, the engine has answered: such a request does not go back to the line."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head()[:-3])
        exchange.close()

    with pytest.raises(EngineError) as caught:
        await fetch(script)
    assert caught.value.failure == "broken"


@pytest.mark.parametrize(
    "sent",
    [
        stream_head() + chunk(b"abc"),
        stream_head() + b"a\r\nabc",
        head(200, (("Content-Length", "10"),)) + b"abc",
    ],
)
@pytest.mark.parametrize("how", ["close", "reset"])
async def test_cut_answers_are_broken(sent, how):
    """Field case B14: a truncated chunked or counted answer never reads as a whole one."""
    passed = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.send(sent)
        await passed.wait()
        getattr(exchange, how)()

    async with FakeUp(script) as up:
        http = EngineHttp(up.url)
        answer = await http.request("POST", "responses", (), b"{}")
        assert await read(answer) == b"abc"
        passed.set()
        with pytest.raises(EngineError) as caught:
            await read(answer)
        answer.close()
        await http.close()
    assert caught.value.failure == "broken"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_close_delimited_answers_are_read_to_their_end(version):
    """HTTP/1.0 answers without a length end with their connection, and say so."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(head(200, version=version) + b"one ")
        await exchange.send(b"two")
        exchange.close()

    _, answer, body = await fetch(script)
    assert (answer.ends_with_connection, body) == (True, b"one two")


async def test_bytes_come_as_they_are_sent():
    """A piece is passed on before the next one is sent: nothing waits for more."""
    more = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head() + chunk(b"first"))
        await more.wait()
        await exchange.send(chunk(b"second") + LAST_CHUNK)

    async with FakeUp(script) as up:
        http = EngineHttp(up.url)
        answer = await http.request("POST", "responses", (), b"{}")
        assert await read(answer) == b"first"
        more.set()
        assert await read(answer) == b"second"
        assert await read(answer) == b""
        await http.close()


async def test_an_interim_answer_that_switches_protocols_is_broken():
    """101 is no answer to a request that asked for no other protocol."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(head(101, (("Upgrade", "x"), ("Connection", "upgrade"))))

    with pytest.raises(EngineError) as caught:
        await fetch(script)
    assert (caught.value.failure, caught.value.detail) == ("broken", "status 101 is no final answer")


async def test_cancel_closes_a_connection_that_waits_for_headers():
    """Field case B03: leaving before the status line is seen by the engine at once."""

    async def script(exchange: Exchange) -> None:
        await exchange.peer_left.wait()

    async with FakeUp(script) as up, asyncio.timeout(DEADLINE):
        http = EngineHttp(up.url)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(http.request("POST", "responses", (), b"{}"))
            await until(lambda: up.requests)
            task.cancel()
        await up.requests[0].peer_left.wait()
        await http.close()


async def test_leaving_waits_until_the_engine_has_noticed():
    """Field case B02: whoever gets the slot next does not find the engine busy with an answer that nobody reads."""
    noticed = []

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head() + chunk(b"first"))
        await exchange.peer_left.wait()
        await asyncio.sleep(0.05)  # a busy engine
        noticed.append(True)
        exchange.close()

    async with FakeUp(script) as up, asyncio.timeout(DEADLINE):
        http = EngineHttp(up.url)
        answer = await http.request("POST", "responses", (), b"{}")
        await answer.leave(within=DEADLINE)
        assert noticed == [True]
        await http.close()


async def test_an_engine_that_does_not_notice_is_cut_off():
    """It goes on generating: after the time it had its connection is closed, and what it sends is not kept."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head())
        with contextlib.suppress(OSError, RuntimeError):  # uvloop's word for a connection that is closed
            while True:
                await exchange.send(chunk(bytes(1000)))
                await asyncio.sleep(0.001)

    async with FakeUp(script) as up, asyncio.timeout(DEADLINE):
        http = EngineHttp(up.url)
        answer = await http.request("POST", "responses", (), b"{}")
        connected = _open_sockets()
        await answer.leave(within=0.1)
        await until(lambda: _open_sockets() < connected)
        await http.close()


async def test_close_does_not_wait_for_an_engine_that_stopped_reading():
    """A cancelled upload gives its connection up at once though the engine takes no more bytes."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        http = EngineHttp(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        task = asyncio.ensure_future(http.request("POST", "responses", (), bytes(32 * 1024 * 1024)))
        peer, _ = await asyncio.wait_for(loop.sock_accept(listening), DEADLINE)
        with peer:
            before = -1
            while before != (waiting := _unread(peer)) or not waiting:
                before = waiting
                await asyncio.sleep(0.05)
            assert waiting < 32 * 1024 * 1024
            with_client = _open_sockets()
            task.cancel()
            await asyncio.wait([task])
            await until(lambda: _open_sockets() == with_client - 1)
        await http.close()


def _unread(sock):
    """Return how many bytes wait in a socket."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, bytes(4)))[0]


def _open_sockets():
    """Count this process's sockets."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(str(entry.readlink()))
    return sum(link.startswith("socket:") for link in links)


async def test_an_unread_answer_makes_the_engine_wait():
    """Back-pressure: an engine cannot push far ahead of the reader."""
    sent = 0

    async def script(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.send(stream_head())
        for _ in range(512):
            await exchange.send(chunk(bytes(64 * 1024)))
            sent += 1
        await exchange.send(LAST_CHUNK)

    async with FakeUp(script) as up:
        http = EngineHttp(up.url)
        answer = await http.request("POST", "responses", (), b"{}")
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 512
        assert len(await read_all(answer)) == 512 * 64 * 1024
        await http.close()


@pytest.mark.parametrize(
    "case",
    [
        test_cancel_closes_a_connection_that_waits_for_headers,
        test_leaving_waits_until_the_engine_has_noticed,
        test_an_engine_that_does_not_notice_is_cut_off,
        test_close_does_not_wait_for_an_engine_that_stopped_reading,
        test_an_unread_answer_makes_the_engine_wait,
    ],
)
def test_the_same_on_the_loop_of_production(case):
    """Transports of uvloop are not asyncio's: what depends on them holds there too."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(case())
