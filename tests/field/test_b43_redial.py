"""Field case B43: many nodes and one Edge that goes away, and an Edge that refuses right after the handshake."""

import asyncio
import logging

import pytest

from iop.edge.links import Links
from iop.link.backoff import FIRST_DELAY, MAX_DELAY, Backoff
from iop.link.messages import Config, Ready
from iop.node.dialer import Dialer
from iop.transport.link import LinkConnection
from iop.transport.tasks import TaskSet
from tests.fakes.link_peers import FakeDirectory, Recorder, hello
from tests.fakes.until import until

NODES = [f"n{number}" for number in range(1, 6)]


class Node:
    """A node that acknowledges its config."""

    def on_config(self, conn: LinkConnection, config: Config) -> None:
        conn.send(Ready(generation=config.generation))

    def on_lost(self, reason: str) -> None:
        """It redials by itself."""

    def on_going_away(self) -> None:
        """Nothing runs here."""


@pytest.fixture
async def tasks():
    """Background work, ended with the test."""
    tasks = TaskSet()
    yield tasks
    await tasks.close()


def five() -> FakeDirectory:
    """An Edge's directory with five nodes."""
    return FakeDirectory(tokens=dict.fromkeys(NODES, "secret"))


async def test_b43_five_nodes_come_back_after_a_restart_of_the_edge(tasks, caplog):
    """Field case B43: each node logs the loss once, redials by itself, and all five are taken in by the new Edge."""
    links = Links(directory=five(), events=Recorder(), dead_after=10)
    host, port = await links.listen("127.0.0.1", 0)
    dialers = [
        Dialer(
            address=(host, port),
            hello=lambda node_id=node_id: hello(node_id=node_id, instance_id=node_id),
            handler=Node(),
            backoff=Backoff(first=0.01, cap=0.2),
        )
        for node_id in NODES
    ]
    for dialer in dialers:
        tasks.start(dialer.run_forever(), name="dialer")
    await until(lambda: all(links.node(node_id) for node_id in NODES))
    with caplog.at_level(logging.WARNING, logger="iop.node.dialer"):
        await links.close(going_away=True)
        await until(lambda: all(dialer._backoff._failures >= 4 for dialer in dialers))
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 5
    again = Links(directory=five(), events=Recorder(), dead_after=10)
    await again.listen(host, port)
    await until(lambda: all(again.node(node_id) for node_id in NODES))
    assert again.turned_away() == []
    for dialer in dialers:
        await dialer.stop()
    await again.close(going_away=False)


async def test_b43_a_connection_that_is_cut_after_the_handshake_is_no_success(tasks, caplog):
    """Field case B43: an Edge that accepts and closes does not reset the delays: they grow to the cap, one log line."""
    connects: list[float] = []

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connects.append(asyncio.get_running_loop().time())
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    backoff = Backoff(first=0.001, cap=0.064)
    delays: list[float] = []
    plain = backoff.delay
    backoff.delay = lambda jitter: delays.append(plain(jitter)) or delays[-1]  # type: ignore[method-assign]
    dialer = Dialer(address=(host, port), hello=hello, handler=Node(), backoff=backoff, jitter=lambda: 0.0)
    with caplog.at_level(logging.WARNING):
        tasks.start(dialer.run_forever(), name="dialer")
        await until(lambda: len(delays) >= 9)
    halves = [0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.032, 0.032]
    assert delays[:9] == pytest.approx(halves)
    assert len(connects) >= 9
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
    await dialer.stop()
    server.close()


def test_b43_the_delays_of_many_nodes_spread():
    """Field case B43: two nodes that lost the Edge at once do not dial at once; no delay is beyond the cap."""
    early, late = Backoff(), Backoff()
    pairs = [(early.delay(0.0), late.delay(0.999)) for _ in range(12)]
    assert pairs[0] == pytest.approx((FIRST_DELAY / 2, FIRST_DELAY), rel=0.01)
    assert all(one < other for one, other in pairs)
    assert pairs[-1] == pytest.approx((MAX_DELAY / 2, MAX_DELAY), rel=0.01)
