"""Bytes that nobody foresaw on the link: whatever comes, an end closes it in order, in bounded memory."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iop.edge.links import Links, RunSpec
from iop.link.errors import WireError
from iop.link.frames import MAX_CONTROL, MAX_PIECE
from iop.link.messages import Config, Ready, Run
from iop.link.session import Session
from iop.node.dialer import Dialer
from iop.transport.link import LinkConnection
from iop.transport.tasks import TaskSet
from tests.contract.test_wire_transcript import frames
from tests.fakes.link_peers import FakeDirectory, Recorder, hello
from tests.fakes.until import until

RECORDED = {"edge": frames("protocol-1-node.hex"), "node": frames("protocol-1-edge.hex")}
OTHERS = [*RECORDED["edge"], *RECORDED["node"]]


@st.composite
def talk(draw: st.DrawFn, role: str) -> bytes:
    """What a broken or hostile peer of `role` may send: recorded frames mixed up, bytes changed, noise between."""
    parts = draw(st.lists(st.one_of(st.sampled_from(RECORDED[role]), st.sampled_from(OTHERS), st.binary(max_size=40))))
    data = bytearray(b"".join([RECORDED[role][0], *parts] if draw(st.booleans()) else parts))
    for at, value in draw(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4)):
        if at < len(data):
            data[at] = value
    return bytes(data)


@pytest.mark.parametrize("role", ["edge", "node"])
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_session_raises_wire_errors_only_and_keeps_little(role: Any, data: st.DataObject) -> None:
    """In pieces of any size: events, or WireError; never more is buffered than one frame and what was just fed."""
    sent = data.draw(talk(role))
    session = Session(role, dead_after=15, open_within=10, now=0.0)
    size = data.draw(st.sampled_from([1, 7, 300, 100_000]))
    try:
        for at in range(0, len(sent), size):
            session.feed(sent[at : at + size])
            while session.next_event() is not None:
                pass
            assert len(session._frames) <= MAX_CONTROL + size
            assert len(session.replies()) <= 64 * len(sent)
            session.tick(0.0)
    except WireError:
        return


@pytest.mark.parametrize("kind", [0, 1])
def test_a_length_that_is_too_large_is_refused_at_once(kind: int) -> None:
    """Nothing of such a frame is waited for or kept, at either end."""
    limit = MAX_CONTROL if kind == 0 else MAX_PIECE + 5
    for role in ("edge", "node"):
        session = Session(role, dead_after=15, open_within=10, now=0.0)  # type: ignore[arg-type]
        session.feed((limit + 1).to_bytes(4, "big") + bytes([kind]))
        with pytest.raises(WireError, match="bytes"):
            session.next_event()


async def _edge_meets(sent: bytes) -> None:
    """A broken node, and one that works."""
    events = Recorder()
    links = Links(directory=FakeDirectory(), events=events, dead_after=10)
    address = await links.listen("127.0.0.1", 0)
    tasks = TaskSet()
    dialer = Dialer(address=address, hello=lambda: hello("n2", "good"), handler=_Node())
    tasks.start(dialer.run_forever(), name="dialer")
    await until(lambda: ("ready", "n2", 1) in events.log)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(sent)
    writer.write_eof()
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.close()
    spec = RunSpec(request_id="r", adapter="a", operation="responses", stream=False, body=b"{}")
    links.start("n2", spec, lambda end: None)
    assert links.node("n2") is not None
    await dialer.stop()
    await tasks.close()
    await links.close(going_away=False)


async def _node_meets(sent: bytes) -> None:
    """A broken Edge at the first dial, a good one at the second."""
    dials = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dials
        dials += 1
        writer.write(sent if dials == 1 else RECORDED["node"][0])
        if dials > 1:
            await reader.read()  # until the node leaves
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    tasks, node = TaskSet(), _Node()
    dialer = Dialer(address=server.sockets[0].getsockname(), hello=hello, handler=node, jitter=lambda: 0.0)
    dialer._backoff._first = dialer._backoff._cap = 0.001
    tasks.start(dialer.run_forever(), name="dialer")
    await until(lambda: dials >= 2 and dialer.connection)
    await dialer.stop()
    await tasks.close()
    server.close()


class _Node:
    """A node that takes everything and does nothing."""

    def on_config(self, conn: LinkConnection, config: Config) -> None:
        conn.send(Ready(generation=config.generation))

    def on_run(self, conn: LinkConnection, run: Run) -> None:
        """Never answered."""

    def on_body(self, conn: LinkConnection, run: int, data: bytes, end: bool) -> None:
        conn.drained(run, len(data))

    def on_cancel(self, conn: LinkConnection, cancel: object) -> None:
        """Nothing runs."""

    def on_going_away(self) -> None:
        """Nothing to finish."""

    def on_lost(self, reason: str) -> None:
        """It redials."""


@pytest.mark.parametrize(("role", "meets"), [("edge", _edge_meets), ("node", _node_meets)])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_end_survives_a_broken_peer(
    role: str, meets: Callable[[bytes], Awaitable[None]], data: st.DataObject, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection ends, nothing reaches the loop's exception handler, and the next peer is served."""
    sent = data.draw(talk(role))
    faults: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
        await meets(sent)

    caplog.clear()
    asyncio.run(scenario())
    assert faults == []
    assert not any(record.exc_info for record in caplog.records)
