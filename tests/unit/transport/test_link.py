"""LinkConnection over real sockets, on asyncio's loop and on uvloop's."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from iop.link.codec import Codec
from iop.link.flow import INITIAL_CREDIT
from iop.link.frames import MAX_PIECE, control_frame
from iop.link.messages import Bye, Config, End, Head, Hello, NodeRuntimeConfig, Run
from iop.transport import link, outbox
from iop.transport.link import LinkConnection, LinkLost
from iop.transport.tasks import TaskSet
from tests.fakes.link_peers import hello
from tests.fakes.until import until

uvloop = pytest.importorskip("uvloop")
LOOPS = pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
CONFIG = Config(epoch=1, generation=1, dead_after=30.0, runtime=NodeRuntimeConfig(node_id="n1"))


def on(loops: Callable[[], asyncio.AbstractEventLoop], scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario on a loop of its own."""
    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(scenario)


@dataclass
class Peer:
    """One end: writes down what comes; drains unless told not to; may raise on a message."""

    conn: LinkConnection | None = None
    heard: list = field(default_factory=list)
    bodies: dict[int, bytearray] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    lost: list[str] = field(default_factory=list)
    idle: set[int] = field(default_factory=set)
    first: object = None
    raises: tuple = ()

    def on_open(self, conn: LinkConnection) -> None:
        self.conn = conn
        if self.first is not None:
            conn.send(self.first)

    def on_message(self, conn: LinkConnection, message) -> None:
        self.heard.append(message)
        if isinstance(message, Hello):
            conn.send(CONFIG)
        if isinstance(message, self.raises):
            raise ValueError(f"a fault with {message}")  # noqa: TRY004 - any fault

    def on_body(self, conn: LinkConnection, run: int, data: bytes, end: bool) -> None:
        self.bodies.setdefault(run, bytearray()).extend(data)
        if run not in self.idle:
            conn.drained(run, len(data))
        if end:
            self.whole.add(run)

    def on_lost(self, conn: LinkConnection, reason: str) -> None:
        self.lost.append(reason)


@contextlib.asynccontextmanager
async def linked(dead_after: float = 30.0) -> AsyncIterator[tuple[Peer, Peer]]:
    """An Edge's end and a node's end of one link, after hello and config."""
    loop = asyncio.get_running_loop()
    edge, node = Peer(), Peer(first=hello())
    server = await loop.create_server(lambda: LinkConnection("edge", edge, dead_after=dead_after), "127.0.0.1", 0)
    await loop.create_connection(
        lambda: LinkConnection("node", node, dead_after=dead_after), *server.sockets[0].getsockname()
    )
    await until(lambda: node.heard)
    assert node.conn is not None
    node.conn.retime(dead_after)
    try:
        yield edge, node
    finally:
        for end in (edge, node):
            end.conn.close("the test is over")
            await end.conn.wait_closed()
        server.close()
        await server.wait_closed()


def run(number: int) -> Run:
    """A run message."""
    return Run(run=number, epoch=1, request_id="r", adapter="a", operation="responses", stream=True)


@LOOPS
def test_a_large_body_arrives_whole_and_in_order(loops):
    """Far more than the credit and the write buffer, in pieces, both ways."""

    async def scenario() -> None:
        data = bytes(range(256)) * 12000
        async with linked() as (edge, node):
            edge.conn.send(run(1))
            await edge.conn.send_body(1, data, end=True)
            await until(lambda: 1 in node.whole)
            await node.conn.send_body(1, data, end=True)
            node.conn.send(End(run=1, outcome="completed"))
            await until(lambda: End(run=1, outcome="completed") in edge.heard)
            assert bytes(node.bodies[1]) == bytes(edge.bodies[1]) == data

    on(loops, scenario())


@LOOPS
def test_a_reader_that_does_not_read_stalls_its_own_run_only(loops):
    """Run 1 holds one window and no more; run 2 and pings go on; draining lets run 1 go on."""

    async def scenario() -> None:
        tasks = TaskSet()
        async with linked() as (edge, node):
            edge.idle.add(1)
            for number in (1, 2):
                edge.conn.send(run(number))
            await until(lambda: run(2) in node.heard)
            stalled = tasks.start(node.conn.send_body(1, bytes(8 * INITIAL_CREDIT), end=True), name="stalled")
            await node.conn.send_body(2, bytes(16 * INITIAL_CREDIT), end=True)
            await until(lambda: 2 in edge.whole)
            assert await edge.conn.probe(20.0)
            assert await node.conn.probe(20.0)
            assert len(edge.bodies[1]) == INITIAL_CREDIT
            assert not stalled.done()
            edge.idle.clear()
            edge.conn.drained(1, INITIAL_CREDIT)
            await stalled
            await until(lambda: 1 in edge.whole)
            assert len(edge.bodies[1]) == 8 * INITIAL_CREDIT

    on(loops, scenario())


@LOOPS
@pytest.mark.parametrize("how", ["forget", "end", "close", "peer"])
def test_a_waiting_sender_is_told_when_its_run_or_link_is_over(loops, how):
    """Nobody waits for credit that will not come."""

    async def scenario() -> None:
        tasks = TaskSet()
        async with linked() as (edge, node):
            node.idle.add(1)
            edge.conn.send(run(1))
            sender = tasks.start(edge.conn.send_body(1, bytes(2 * INITIAL_CREDIT), end=True), name="sender")
            await until(lambda: len(node.bodies.get(1, b"")) == INITIAL_CREDIT)
            match how:
                case "forget":
                    edge.conn.forget(1)
                case "end":
                    node.conn.send(End(run=1, outcome="failed", failure="busy"))
                case "close":
                    edge.conn.close("enough")
                case "peer":
                    node.conn.abort("gone")
            with pytest.raises(LinkLost):
                await sender

    # the task's failure is what the test looks at; its log line is the task set's
    logging.getLogger("iop.transport.tasks").disabled = True
    try:
        on(loops, scenario())
    finally:
        logging.getLogger("iop.transport.tasks").disabled = False


@LOOPS
def test_a_fault_in_one_handler_does_not_end_the_link(loops):
    """The loop reports it; messages in the same packet and later ones still arrive."""

    async def scenario() -> None:
        reported: list[dict] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        async with linked() as (edge, node):
            edge.raises = (Head,)
            for number in (1, 2, 3):
                node.conn.send(Head(run=number, status=200))
            await until(lambda: len(edge.heard) == 4)
            assert await node.conn.probe(20.0)
            assert edge.lost == []
        assert len(reported) == 3

    on(loops, scenario())


@LOOPS
def test_close_sends_what_was_said_and_loses_the_link_once(loops):
    """The last message arrives; later sends and closes do nothing; body senders are told."""

    async def scenario() -> None:
        async with linked() as (edge, node):
            node.conn.send(Bye())
            node.conn.close("done")
            assert node.lost == ["done"]
            node.conn.send(Bye())
            node.conn.drained(1, 5)
            node.conn.close("again")
            node.conn.abort("and again")
            with pytest.raises(LinkLost, match="done"):
                await node.conn.send_body(1, b"x")
            assert not await node.conn.probe(1.0)
            await until(lambda: edge.lost)
            assert edge.heard[-1] == Bye()
            assert edge.lost == ["connection closed by the peer"]
            assert node.lost == ["done"]

    on(loops, scenario())


@LOOPS
@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\2\0{}", control_frame(Codec().encode(Bye()))])
def test_wrong_frames_end_the_link_with_one_log_line(loops, data, caplog):
    """A port scanner, a browser or a broken node costs a line, not the process."""

    async def scenario() -> None:
        edge = Peer()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: LinkConnection("edge", edge, dead_after=30), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        await until(lambda: edge.lost)
        assert edge.lost[0].startswith("wrong frame: ")
        assert edge.heard == []
        writer.close()
        server.close()

    with caplog.at_level(logging.WARNING):
        on(loops, scenario())
    assert [record.name for record in caplog.records] == ["iop.transport.link"]
    assert "127.0.0.1" in caplog.records[0].getMessage()


@LOOPS
@pytest.mark.parametrize("says_hello", [False, True])
def test_a_silent_peer_is_given_up_in_time(loops, says_hello):
    """Half-open: no FIN ever comes; a stranger and a known node are both noticed, by their own deadlines."""

    async def scenario() -> None:
        edge = Peer()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: LinkConnection("edge", edge, dead_after=0.5, open_within=0.5), "127.0.0.1", 0
        )
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        if says_hello:
            writer.write(control_frame(Codec().encode(hello())))
            await until(lambda: edge.heard)
        await until(lambda: edge.lost)
        assert edge.lost == ["the peer is silent" if says_hello else "no hello within 0.5 s"]
        writer.close()
        server.close()

    on(loops, scenario())


@LOOPS
def test_a_blocked_loop_is_not_a_dead_peer(loops):
    """B45: after stalls of twice dead_after, late ticks and pending pongs do not end the link."""

    async def scenario() -> None:
        async with linked(dead_after=0.3) as (edge, node):
            for _ in range(2):
                time.sleep(0.7)  # noqa: ASYNC251 - the fault under test
                assert await edge.conn.probe(20.0)
            assert (edge.lost, node.lost) == ([], [])

    on(loops, scenario())


@LOOPS
def test_a_probe_of_a_deaf_peer_is_false(loops):
    """No pong within the time means no, and the link is left as it is."""

    async def scenario() -> None:
        edge = Peer()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: LinkConnection("edge", edge, dead_after=30), "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(control_frame(Codec().encode(hello())))
        await until(lambda: edge.heard)
        assert not await edge.conn.probe(0.05)
        assert edge.lost == []
        writer.close()
        await until(lambda: edge.lost)
        server.close()

    on(loops, scenario())


@LOOPS
def test_a_socket_that_is_not_read_holds_bounded_memory(loops, monkeypatch):
    """Bodies wait for the transport; when even control messages pile up, the link is cut."""
    monkeypatch.setattr(outbox, "WRITE_LIMIT", 4 * 1024 * 1024)

    async def scenario() -> None:
        tasks = TaskSet()
        edge = Peer()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: LinkConnection("edge", edge, dead_after=30), "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1024)
        writer.write(control_frame(Codec().encode(hello())))
        await until(lambda: edge.heard)
        for number in range(1, 65):
            edge.conn.send(run(number))
            tasks.start(edge.conn.send_body(number, bytes(INITIAL_CREDIT), end=True), name="body")
        await until(lambda: not edge.conn._writable)
        await asyncio.sleep(0)
        assert edge.conn._transport.get_write_buffer_size() <= link.WRITE_HIGH + MAX_PIECE + 65 * 512
        for number in range(20000):
            edge.conn.send(Head(run=number, status=200, headers=(("x", "y" * 1000),)))
        await until(lambda: edge.lost)
        assert edge.lost == ["the peer does not read: 4194304 bytes wait for it"]
        await tasks.close()
        writer.close()
        server.close()

    on(loops, scenario())


@LOOPS
def test_a_closed_link_does_not_linger_for_a_peer_that_does_not_read(loops, monkeypatch):
    """The last bytes get some time, not for ever."""
    monkeypatch.setattr(link, "LINGER", 0.05)

    async def scenario() -> None:
        edge = Peer()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: LinkConnection("edge", edge, dead_after=30), "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1024)
        writer.write(control_frame(Codec().encode(hello())))
        await until(lambda: edge.heard)
        for number in range(10000):
            edge.conn.send(Head(run=number, status=200, headers=(("x", "y" * 1000),)))
        assert edge.conn._transport.get_write_buffer_size() > 0
        edge.conn.close("stopping")
        async with asyncio.timeout(10):
            await edge.conn.wait_closed()
        writer.close()
        server.close()

    on(loops, scenario())
