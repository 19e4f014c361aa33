"""Flow control of the link over TLS: one large body and a reader that hardly reads, on both event loops."""

import asyncio

import pytest

from iop.edge.links import Links, RunSpec
from iop.link.flow import INITIAL_CREDIT
from iop.link.frames import MAX_PIECE
from iop.link.messages import Config, Ready, Run
from iop.node.dialer import Dialer
from iop.transport.link import WRITE_HIGH, LinkConnection
from iop.transport.tasks import TaskSet
from tests.fakes.authority import Authority
from tests.fakes.link_peers import FakeDirectory, Recorder, hello
from tests.fakes.until import until

uvloop = pytest.importorskip("uvloop")
LOOPS = pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
SIZE = 64 * 1024 * 1024


class SlowNode:
    """Takes bodies, and drains them only when the test says so; watches how much is held at once."""

    def __init__(self) -> None:
        self.conn: LinkConnection | None = None
        self.held = self.peak = self.total = 0
        self.reads = False

    def on_config(self, conn: LinkConnection, config: Config) -> None:
        self.conn = conn
        conn.send(Ready(generation=config.generation))

    def on_run(self, conn: LinkConnection, run: Run) -> None:
        self.run = run.run

    def on_body(self, conn: LinkConnection, run: int, data: bytes, end: bool) -> None:
        self.held += len(data)
        self.total += len(data)
        self.peak = max(self.peak, self.held)
        if self.reads:
            self.drain()

    def drain(self) -> None:
        assert self.conn is not None
        self.conn.drained(self.run, self.held)
        self.held = 0

    def on_lost(self, reason: str) -> None:
        self.lost = reason


@LOOPS
def test_a_64_mib_body_with_a_slow_reader_stays_bounded(loops, tmp_path) -> None:
    """One window at the reader, one write buffer at the sender; pings pass meanwhile; then all of it arrives."""

    async def scenario() -> None:
        tasks, authority, node, events = TaskSet(), Authority(tmp_path), SlowNode(), Recorder()
        links = Links(directory=FakeDirectory(), events=events, dead_after=30)
        address = await links.listen("127.0.0.1", 0, authority.server())
        dialer = Dialer(address=address, hello=hello, handler=node, tls=authority.client)
        tasks.start(dialer.run_forever(), name="dialer")
        await until(lambda: events.of("ready"))
        spec = RunSpec(request_id="r", adapter="a", operation="responses", stream=True, body=bytes(SIZE))
        links.start("n1", spec, lambda end: None)
        await until(lambda: node.total == INITIAL_CREDIT)
        link = links.node("n1")
        assert link is not None
        assert node.conn is not None
        assert await link.conn.probe(20.0)
        assert await node.conn.probe(20.0)
        assert node.total == INITIAL_CREDIT
        assert link.conn._transport.get_write_buffer_size() <= WRITE_HIGH + MAX_PIECE
        node.reads = True
        node.drain()
        sizes = []
        while node.total < SIZE:
            sizes.append(link.conn._transport.get_write_buffer_size())
            await asyncio.sleep(0)
        assert node.peak <= INITIAL_CREDIT
        assert max(sizes) <= WRITE_HIGH + MAX_PIECE
        await dialer.stop()
        await links.close(going_away=False)
        await tasks.close()

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(asyncio.wait_for(scenario(), 120))
