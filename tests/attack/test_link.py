"""Bytes on the node link: frames that are changed where it matters, strangers by the hundred, hellos that never end."""

import asyncio
import contextlib
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iop.link.errors import WireError
from iop.link.frames import BODY, CONTROL, BodyFrame, FrameReader, body_frame, control_frame
from iop.link.messages import Config, Run
from iop.link.session import FROM_EDGE, FROM_NODE, Session
from tests.attack.rogues import ID, rogue
from tests.attack.target import EXAMPLES, LONG, Target, end_of_words
from tests.contract.test_wire_transcript import frames
from tests.fakes.hygiene import handles
from tests.fakes.link_peers import FakeNode, hello
from tests.fakes.until import until

in_module = pytest.mark.asyncio(loop_scope="module")

#: values that a field may have where nobody expects them
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**32, 2**64, 10**300, 0.5, 1e308, "", "x" * 5000, "\x00\x1b[2J\r\n", "é",
    [], [[]], {}, {"run": 1}, ["x"] * 500, "completed", "hello",
)  # fmt: skip
RECORDED = {"edge": frames("protocol-1-node.hex"), "node": frames("protocol-1-edge.hex")}
TYPES = [kind.__struct_config__.tag for kind in {*FROM_EDGE, *FROM_NODE}]


def _payloads(role: str) -> list[dict[str, Any]]:
    """The control messages of a transcript as data."""
    found = []
    for raw in RECORDED[role]:
        reader = FrameReader(2**20)
        reader.feed(raw)
        frame = reader.next_frame()
        if frame is not None and not isinstance(frame, BodyFrame):
            found.append(json.loads(frame.payload))
    return found


PAYLOADS = {role: _payloads(role) for role in RECORDED}


def _changed(choose: random.Random, role: str) -> bytes:
    """A recorded message with a field changed, taken away, added or of another type; or a body frame of any run."""
    if choose.random() < 0.2:
        return body_frame(choose.choice((0, 1, 7, 8, 2**32 - 1)), choose.randbytes(choose.randrange(100)), end=True)
    message = dict(choose.choice(PAYLOADS[role]))
    for _ in range(choose.randrange(3)):
        name = choose.choice([*message, "type", "run", "extra"])
        match choose.randrange(4):
            case 0:
                message.pop(name, None)
            case 1:
                message["type"] = choose.choice(TYPES)
            case _:
                message[name] = choose.choice(ODD)
    data = bytearray(control_frame(json.dumps(message).encode()))
    match choose.randrange(12):
        case 0:
            data[choose.randrange(len(data))] = choose.randrange(256)
        case 1:
            del data[choose.randrange(len(data)) :]
        case 2:
            data[:4] = choose.choice((0, 1, 2**16, 2**20, 2**20 + 1, 2**32 - 1)).to_bytes(4, "big")
        case 3:
            data[4] = choose.choice((CONTROL, BODY, 2, 255))
    return bytes(data)


def _talk(seed: int, role: str) -> Iterator[bytes]:
    """What a peer of this seed says after a good first message: some of it recorded, most of it changed."""
    choose = random.Random(seed)
    for _ in range(choose.randrange(1, 12)):
        yield choose.choice(RECORDED[role]) if choose.random() < 0.3 else _changed(choose, role)


@pytest.mark.parametrize("role", ["edge", "node"])
@settings(max_examples=20_000 if LONG else 600, deadline=None, derandomize=not LONG)
@given(seed=st.integers(0, 2**64))
def test_changed_messages_are_events_or_the_end(role: Any, seed: int) -> None:
    """Whatever a field holds, a session gives events or says WireError; its books keep nothing that was not opened."""
    session = Session(role, dead_after=15, open_within=10, now=0.0)
    session.feed(RECORDED[role][0])
    assert session.next_event() is not None
    if role == "edge":
        session.send(Run(run=1, epoch=1, request_id="r", adapter="a", operation="responses", stream=True))
    try:
        for data in _talk(seed, role):
            session.feed(data)
            while session.next_event() is not None:
                session.replies()
            session.tick(0.0)
    except WireError:
        pass
    assert len(session.flows) <= 12


@in_module
@pytest.mark.parametrize("batch", range(2))
async def test_an_edge_with_work_survives_changed_messages(target: Target, batch: int) -> None:
    """Over real sockets, as the node that it claims to be, while the other nodes work."""
    async with rogue(target) as node:
        await node.close()
        others = asyncio.ensure_future(_work(target))
        seeds = random.Random(None if LONG else batch).sample(range(2**40), EXAMPLES * 10)
        for seed in seeds:
            reader, writer = await asyncio.open_connection(*target.address("nodes"))
            said = b"".join(_talk(seed, "edge"))
            first = control_frame(json.dumps(PAYLOADS["edge"][0] | {"node_id": ID, "token": None}).encode())
            with contextlib.suppress(ConnectionError):
                writer.write(first + said)
                end_of_words(writer)
                async with asyncio.timeout(20):
                    while await reader.read(1 << 16):
                        pass
            writer.transport.abort()
        assert set(await others) == {200}


async def _work(target: Target) -> list[int]:
    body = {"model": "pool", "messages": [{"role": "user", "content": "hi"}]}
    url = f"{target.cluster.openai}/chat/completions"
    return [(await target.cluster.client.post(url, json=body)).status_code for _ in range(20)]


SAYS_HELLO = b'{"type":"hello","protocol":1,"instance_id":"i","node_id":"'
STRANGERS = {
    "noise": bytes(range(256)) * 40,
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(500),
    "an endless frame": b"\x00\x00\xff\xff\x00" + b"{" * 60_000,
    "nothing of a frame": b"\x00\x00",
    "a body first": body_frame(1, b"x", end=True),
    "deep JSON": control_frame(b"[" * 60_000),
    "not UTF-8": control_frame(b'{"type":"hello","node_id":"\xff\xfe"}'),
    "a lone surrogate": control_frame(SAYS_HELLO + b'\\ud800"}'),
    "a hello of no node": control_frame(SAYS_HELLO + b"n" * 60_000 + b'"}'),
    "another protocol": control_frame(SAYS_HELLO.replace(b"1", b"9" * 4000) + b'rogue"}'),
    "a terminal's words": control_frame(SAYS_HELLO + b'\\u001b[2J\\r\\nERROR"}'),
}  # fmt: skip


@in_module
@pytest.mark.parametrize("words", STRANGERS)
async def test_a_stranger_gets_nothing(target: Target, words: str) -> None:
    """Forty of a kind, in pieces and at once: closed, told nothing but a refusal, and logged a few times at most."""
    log = target.cluster.processes["edge"].log
    before = log.read_bytes().count(b"\n")

    async def one(size: int) -> bytes:
        reader, writer = await asyncio.open_connection(*target.address("nodes"))
        try:
            with contextlib.suppress(ConnectionError):
                for at in range(0, len(STRANGERS[words]), size):
                    writer.write(STRANGERS[words][at : at + size])
                    await writer.drain()
                end_of_words(writer)
                async with asyncio.timeout(20):
                    return await reader.read()
            return b""
        finally:
            writer.transport.abort()

    for said in await asyncio.gather(*(one(size) for size in (100_000, 7000) * 20)):
        assert said == b"" or b'"turned_away"' in said
    assert log.read_bytes().count(b"\n") - before <= 6
    assert b"\x1b" not in log.read_bytes()


@in_module
async def test_thousands_who_say_nothing_keep_no_node_out(target: Target) -> None:
    """Each costs the Edge a connection of which it keeps a few hundred, the newest; a node that dials comes in."""
    edge = target.cluster.processes["edge"].child.pid
    before = len(handles(edge))
    silent = []
    try:
        for _ in range(600):
            silent.append(await asyncio.open_connection(*target.address("nodes")))
        await until(lambda: len(handles(edge)) <= before + 300, within=20)
        async with rogue(target) as node:
            assert node.all(Config)
        newcomer = await FakeNode.connect(target.address("nodes"))
        newcomer.send(hello("unknown", token=None))
        await newcomer.gone()
        await newcomer.close()
    finally:
        for _, writer in silent:
            writer.transport.abort()
    await until(lambda: len(handles(edge)) <= before + 8, within=20)
