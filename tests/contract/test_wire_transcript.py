"""Protocol 1 as it was first spoken, byte for byte: both ends of this code understand what an older peer says.

The transcripts are committed and never written anew for a protocol that is released. When the protocol number is
raised, they stay as the words of N-1.
"""

import asyncio
from pathlib import Path

import pytest

from iop.edge.links import Links, RunSpec
from iop.link import messages as m
from iop.link.codec import Codec
from iop.link.frames import BodyFrame, ControlFrame, FrameReader, body_frame, control_frame
from iop.link.messages import PROTOCOL, Config, GoingAway, Ready, Run, TurnedAway
from iop.link.session import Session
from iop.node.dialer import Dialer
from iop.transport.link import LinkConnection
from iop.transport.tasks import TaskSet
from tests.fakes.link_peers import FakeDirectory, Recorder, hello
from tests.fakes.until import until

FOLDER = Path(__file__).parent / "wire"
#: messages of each side in the transcripts, in order
EDGE_SAYS = [m.Config, m.Run, "body", m.Credit, m.Ping, m.Cancel, m.GoingAway]
NODE_SAYS = [
    m.Hello,
    m.Ready,
    m.ProviderHealth,
    m.ProviderHealth,
    m.Pong,
    m.Head,
    "body",
    m.Credit,
    m.End,
    m.End,
    m.Bye,
]


def frames(name: str) -> list[bytes]:
    """The frames of a transcript: one per line in hex, `#` begins a comment."""
    lines = (FOLDER / name).read_text(encoding="ascii").splitlines()
    return [bytes.fromhex(line.partition("#")[0]) for line in lines if line.partition("#")[0].strip()]


def kinds(raw: list[bytes]) -> list[object]:
    """The type of each frame's message, `body` for a body frame."""
    reader, codec, found = FrameReader(2**20), Codec(), []
    for data in raw:
        reader.feed(data)
        frame = reader.next_frame()
        found.append(type(codec.decode(frame.payload)) if isinstance(frame, ControlFrame) else "body")
    assert reader.next_frame() is None
    return found


@pytest.mark.parametrize(("name", "says"), [("protocol-1-edge.hex", EDGE_SAYS), ("protocol-1-node.hex", NODE_SAYS)])
def test_the_transcripts_are_whole(name: str, says: list[object]) -> None:
    """Each frame decodes to the message it was, and every message a side may send is there."""
    assert kinds(frames(name)) == says
    missing = {"protocol-1-edge.hex": {m.TurnedAway, m.Pong}, "protocol-1-node.hex": {m.Ping}}[name]
    side = {"protocol-1-edge.hex": "FROM_EDGE", "protocol-1-node.hex": "FROM_NODE"}[name]
    from iop.link import session

    assert set(getattr(session, side)) - set(says) == missing


def test_an_old_node_is_understood_by_this_session() -> None:
    """Everything an Edge of this release needs is in an old node's frames, also byte by byte."""
    session = Session("edge", dead_after=15, open_within=10, now=0.0)
    heard: list[object] = []
    for data in frames("protocol-1-node.hex"):
        if heard and not session.flows.get(1):
            session.send(Run(run=1, epoch=1, request_id="r", adapter="e1", operation="responses", stream=True))
            session.send_piece(1, memoryview(b"x" * 100_000), end=False)
            session.ping()
        for byte in data:
            session.feed(bytes([byte]))
            while (event := session.next_event()) is not None:
                heard.append(event)
    said = next(entry for entry in heard if isinstance(entry, m.Hello))
    assert (said.node_id, said.instance_id, said.token, said.protocol) == ("n1", "i1", "secret", 1)
    assert said.running == (m.RunningWork(run=7, request_id="req-7", adapter="e1", provider_id="p1"),)
    assert [entry.data for entry in heard if isinstance(entry, BodyFrame)] == [b'{"ok":true}']
    assert [(e.run, e.outcome, e.failure) for e in heard if isinstance(e, m.End)] == [
        (1, "completed", None),
        (7, "failed", "unreachable"),
    ]


def test_an_old_edge_is_understood_by_this_session() -> None:
    """Everything a node of this release needs is in an old Edge's frames."""
    session = Session("node", dead_after=15, open_within=20, now=0.0)
    heard: list[object] = []
    for data in frames("protocol-1-edge.hex"):
        session.feed(data)
        while (event := session.next_event()) is not None:
            heard.append(event)
            if isinstance(event, BodyFrame):
                session.send_piece(event.run, memoryview(b"y" * 100_000), end=False)
    config, run = heard[0], heard[1]
    assert isinstance(config, Config)
    assert config.runtime.providers[0].capacity == 3
    assert config.runtime.engines[0].endpoint == "http://127.0.0.1:8002/v1"
    assert config.runtime.cli_targets[0].command == ("agent",)
    assert isinstance(run, Run)
    assert (run.provider_pool, run.provider_id, run.timeout) == (True, "p1", 900.0)
    assert [type(entry) for entry in heard[2:]] == [BodyFrame, m.Credit, m.Cancel, GoingAway]
    assert session.replies() == control_frame(Codec().encode(m.Pong(n=1)))


async def test_an_old_node_is_served_by_this_edge() -> None:
    """The recorded hello is taken in over a socket, and its ready makes the node ready for work."""
    raw = frames("protocol-1-node.hex")
    events = Recorder()
    links = Links(directory=FakeDirectory(), events=events, dead_after=10)
    _, writer = await asyncio.open_connection(*await links.listen("127.0.0.1", 0))
    writer.write(raw[0])
    await until(lambda: events.of("connected"))
    writer.write(b"".join(raw[1:4]))
    await until(lambda: len(events.of("health")) == 2)
    assert events.log == [
        ("connected", "n1", 1, (7,)),
        ("ready", "n1", 1),
        ("health", "n1", "p1", True),
        ("health", "n1", "p2", False),
    ]
    spec = RunSpec(request_id="r", adapter="e1", operation="responses", stream=False, body=b"{}", provider_id="p1")
    run = links.start("n1", spec, lambda end: None)
    assert run.run == 8  # above what the old node still runs
    writer.close()
    await until(lambda: events.of("lost"))
    await links.close(going_away=False)


async def test_this_node_is_at_home_at_an_old_edge() -> None:
    """The recorded config is put in force, and a field that this release does not know is ignored."""
    raw = frames("protocol-1-edge.hex")
    newer = Codec().encode(Ready(generation=1)).replace(b"{", b'{"from_the_future": {"a": [1]}, ', 1)
    assert Codec().decode(newer) == Ready(generation=1)
    got: list[Config] = []

    class Node:
        def on_config(self, conn: LinkConnection, config: Config) -> None:
            got.append(config)

        def on_lost(self, reason: str) -> None:
            """The test ends the link."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(raw[0])
        await reader.read()  # until the node leaves
        writer.close()

    tasks = TaskSet()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    dialer = Dialer(address=server.sockets[0].getsockname(), hello=hello, handler=Node())
    tasks.start(dialer.run_forever(), name="dialer")
    await until(lambda: got)
    assert (got[0].epoch, got[0].generation, got[0].dead_after) == (1, 1, 15.0)
    await dialer.stop()
    await tasks.close()
    server.close()


async def test_a_hello_with_nothing_optional_is_enough() -> None:
    """The least an N-1 node may say; only another protocol number is a mismatch, and it is told which."""
    least = b'{"type":"hello","protocol":%d,"node_id":"n2","instance_id":"i"}'
    events = Recorder()
    links = Links(directory=FakeDirectory(), events=events, dead_after=10)
    address = await links.listen("127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*address)
    writer.write(control_frame(least % PROTOCOL))
    await until(lambda: events.of("connected"))
    reader, other = await asyncio.open_connection(*address)
    other.write(control_frame(least % 99))
    frame = FrameReader(2**20)
    frame.feed(await reader.read())
    first = frame.next_frame()
    assert isinstance(first, ControlFrame)
    refusal = Codec().decode(first.payload)
    assert isinstance(refusal, TurnedAway)
    assert (refusal.code, "99" in refusal.message) == ("protocol_mismatch", True)
    for each in (writer, other):
        each.close()
    await links.close(going_away=False)


def test_body_frames_have_kept_their_shape() -> None:
    """Length, kind, run, flags, bytes."""
    assert body_frame(1, b"abc", end=True) == bytes.fromhex("00000008 01 00000001 01 616263")
    reader = FrameReader()
    reader.feed(bytes.fromhex("00000008 01 00000001 00 616263"))
    assert reader.next_frame() == BodyFrame(1, b"abc", end=False)
