"""Field case B40: a link that is half open (no FIN ever comes), through a forwarder that stops forwarding."""

import asyncio
import contextlib
import time

import pytest

from iop.edge.links import Links, RunSpec
from iop.link.backoff import Backoff
from iop.link.messages import Config, End, Head, Ready, Run
from iop.node.dialer import Dialer
from iop.transport.link import LinkConnection
from iop.transport.tasks import TaskSet
from tests.fakes.fake_up import Exchange, chunk, event, stream_head
from tests.fakes.link_peers import FakeDirectory, Recorder, hello
from tests.fakes.stack import Engine, _start_node, answer_ok, chat, stack
from tests.fakes.until import until

DEAD_AFTER = 1.0
SPEC = RunSpec(request_id="r1", adapter="e1", operation="chat.completions", stream=True, provider_id="p1", body=b"{}")


class Forwarder:
    """Copies bytes between a port and the Edge until it is paused; then it keeps the sockets and swallows nothing."""

    def __init__(self, target: tuple[str, int], tasks: TaskSet) -> None:
        self._target = target
        self._tasks = tasks
        self._gates: list[asyncio.Event] = []
        self._server: asyncio.Server | None = None

    async def listen(self) -> tuple[str, int]:
        """The address to dial instead of the Edge's."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    def pause(self) -> None:
        """Stop forwarding on the connections there are; new ones work."""
        for gate in self._gates:
            gate.clear()

    def resume(self) -> None:
        """Deliver what was held back."""
        for gate in self._gates:
            gate.set()

    async def close(self) -> None:
        """Take no more connections."""
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gate = asyncio.Event()
        gate.set()
        self._gates.append(gate)
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._tasks.start(self._copy(reader, far_writer, gate), name="to the Edge")
        self._tasks.start(self._copy(far_reader, writer, gate), name="to the node")

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        try:
            while data := await reader.read(65536):
                await gate.wait()
                writer.write(data)
            await gate.wait()
        except ConnectionError:
            pass
        finally:
            writer.close()


class Node:
    """A node that starts a stream for each run and never ends it."""

    def __init__(self) -> None:
        self.conns: list[LinkConnection] = []
        self.lost: list[tuple[float, str]] = []
        self.runs: list[int] = []

    def on_config(self, conn: LinkConnection, config: Config) -> None:
        self.conns.append(conn)
        conn.send(Ready(generation=config.generation))

    def on_run(self, conn: LinkConnection, run: Run) -> None:
        self.runs.append(run.run)
        conn.send(Head(run=run.run, status=200))
        conn.offer_body(run.run, b"first")

    def on_body(self, conn: LinkConnection, run: int, data: bytes, end: bool) -> None:
        conn.drained(run, len(data))

    def on_lost(self, reason: str) -> None:
        self.lost.append((time.monotonic(), reason))


@pytest.fixture
async def tasks():
    """Background work, ended with the test."""
    tasks = TaskSet()
    yield tasks
    await tasks.close()


async def test_both_ends_notice_and_the_node_comes_back(tasks):
    """In dead_after both ends give the link up and the stream ends with an error; the redial serves."""
    events = Recorder()
    links = Links(directory=FakeDirectory(), events=events, dead_after=DEAD_AFTER)
    forwarder = Forwarder(await links.listen("127.0.0.1", 0), tasks)
    node = Node()
    dialer = Dialer(address=await forwarder.listen(), hello=hello, handler=node, backoff=Backoff(first=0.02, cap=0.1))
    running = tasks.start(dialer.run_forever(), name="dialer")
    await until(lambda: events.of("ready"))
    ends: list[tuple[float, End]] = []
    stream = links.start("n1", SPEC, lambda end: ends.append((time.monotonic(), end)))
    assert await stream.read() == b"first"

    paused_at = time.monotonic()
    forwarder.pause()
    await until(lambda: ends and node.lost)
    # generous above for a loaded machine; the exact bound is proved in fake time (test_liveness)
    assert 0.5 * DEAD_AFTER < ends[0][0] - paused_at < 15 * DEAD_AFTER
    assert 0.5 * DEAD_AFTER < node.lost[0][0] - paused_at < 15 * DEAD_AFTER
    assert ends[0][1].failure == "link_lost"
    assert await stream.read() is None

    await until(lambda: len(events.of("ready")) == 2)
    forwarder.resume()
    again = links.start("n1", SPEC, lambda end: None)
    assert await again.read() == b"first"
    assert again.epoch == 2
    assert len(ends) == 1
    assert len(events.of("lost")) == 1
    await dialer.stop()
    await running
    await links.close(going_away=False)
    await forwarder.close()


async def _hang(exchange: Exchange) -> None:
    """A stream begins and goes nowhere; any other request is never answered."""
    if b'"stream": true' in exchange.body:
        await exchange.send(stream_head())
        await exchange.send(chunk(event({"choices": [{"delta": {"content": "first"}}]})))
    await exchange.peer_left.wait()


async def test_b40_what_has_not_begun_goes_back_to_the_line(tmp_path, tasks):
    """The whole stack: the stream ends with an error event, the other request waits again; another node serves it."""
    options = {"link": {"dead_after": f"{DEAD_AFTER:g}s"}}
    engines = Engine(_hang, capacity=2), Engine(answer_ok, node="n2")
    async with (
        stack(tmp_path, *engines, checks_request=False, **options) as s,
        contextlib.AsyncExitStack() as parts,
    ):
        for node in s.nodes:
            await node.stop()
        direct, forwarder = s.ready["nodes"], Forwarder(s.address("nodes"), tasks)
        s.ready["nodes"] = "{}:{}".format(*await forwarder.listen())
        parts.push_async_callback(forwarder.close)
        await _start_node(tmp_path, parts, "n1", s)
        await s.until(lambda status: status["provider_snapshots"][0]["state"] == "ready")
        stream = await s.open(chat(stream=True))
        await stream.until(b"first")
        held = await s.open()
        await until(lambda: len(s.up.requests) == 2)

        forwarder.pause()
        await s.until(lambda status: status["nodes"][0]["state"] == "offline")
        assert s.load() == (0, 1)
        assert s.totals("failed", "returned") == (1, 1)
        answer = await stream.answer()
        assert b'"error"' in answer.body
        assert b"[DONE]" not in answer.body
        await until(lambda: s.up.peers_left == 2)  # the node noticed, too, and stopped its engine's work

        s.ready["nodes"] = direct
        await _start_node(tmp_path, parts, "n2", s)
        assert (await held.answer()).status == 200
        await s.until(lambda status: status["nodes"][0]["connected"])
        forwarder.resume()  # what comes late from the old link counts nowhere
        await s.idle()
        assert s.totals("completed", "failed", "returned") == (1, 1, 1)
