"""Peers of the link for tests: a node made of plain streams, a recorder of what the Edge hears."""

import asyncio
import contextlib
from dataclasses import dataclass, field

from iop.link.codec import Codec
from iop.link.frames import MAX_CONTROL, BodyFrame, FrameReader, body_frame, control_frame
from iop.link.messages import (
    PROTOCOL,
    Config,
    Credit,
    End,
    Head,
    Hello,
    Message,
    NodeRuntimeConfig,
    Ping,
    Pong,
    ProviderHealth,
    Ready,
)
from tests.fakes.until import until


def hello(node_id: str = "n1", instance_id: str = "i1", token: str | None = "secret", **fields: object) -> Hello:
    """A hello as a node of this release says it."""
    return Hello(**{"protocol": PROTOCOL, "node_id": node_id, "instance_id": instance_id, "token": token} | fields)


class FakeNode:
    """A node that does what a test says, on plain streams. `answers` False makes it deaf: no pong, no credit."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.heard: list[Message] = []
        self.bodies: dict[int, bytearray] = {}
        self.whole: set[int] = set()
        self.answers = True
        self.credits = True
        self.closed = False
        self._reader = reader
        self._codec = Codec()
        self._frames = FrameReader(MAX_CONTROL)
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, address: tuple[str, int]) -> "FakeNode":
        """Connect and say nothing."""
        return cls(*await asyncio.open_connection(*address))

    @classmethod
    async def join(cls, address: tuple[str, int], said: Hello | None = None) -> "FakeNode":
        """Connect, say hello, wait for the config and acknowledge it."""
        node = await cls.connect(address)
        node.send(said or hello())
        config = await node.expect(Config)
        node.send(Ready(generation=config.generation))
        return node

    def send(self, message: Message) -> None:
        """Send a control message."""
        self.writer.write(control_frame(self._codec.encode(message)))

    def send_body(self, run: int, data: bytes, *, end: bool = False) -> None:
        """Send one body frame, with or without credit."""
        self.writer.write(body_frame(run, data, end=end))

    def answer(self, run: int, body: bytes = b"{}", outcome: str = "completed") -> None:
        """A whole small answer."""
        self.send(Head(run=run, status=200))
        self.send_body(run, body, end=True)
        self.send(End(run=run, outcome=outcome))

    def all(self, kind: type) -> list:
        """The messages of this kind that came."""
        return [message for message in self.heard if isinstance(message, kind)]

    async def expect(self, kind: type, count: int = 1):
        """The `count`-th message of this kind, once it is here."""
        await until(lambda: len(self.all(kind)) >= count or self.closed)
        found = self.all(kind)
        assert len(found) >= count, f"the Edge closed; it said {self.heard}"
        return found[count - 1]

    async def gone(self) -> None:
        """Wait until the Edge closed the connection."""
        await until(lambda: self.closed)

    async def close(self) -> None:
        """Close the socket."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(65536):
                self._frames.feed(data)
                while (frame := self._frames.next_frame()) is not None:
                    if isinstance(frame, BodyFrame):
                        self._body(frame)
                    else:
                        self._message(self._codec.decode(frame.payload))
        except ConnectionError:
            pass
        finally:
            self.closed = True
            self.writer.close()

    def _message(self, message: Message) -> None:
        self.heard.append(message)
        if isinstance(message, Ping) and self.answers:
            self.send(Pong(n=message.n))

    def _body(self, frame: BodyFrame) -> None:
        self.bodies.setdefault(frame.run, bytearray()).extend(frame.data)
        if frame.end:
            self.whole.add(frame.run)
        if frame.data and self.credits:
            self.send(Credit(run=frame.run, bytes=len(frame.data)))


@dataclass
class FakeDirectory:
    """A directory with tokens by node id; None = loopback only."""

    tokens: dict[str, str | None] = field(default_factory=lambda: {"n1": "secret", "n2": None})
    generation: int = 1

    def check(self, node_id: str, token: str | None, peer_is_loopback: bool) -> str | None:
        if node_id not in self.tokens:
            return "unknown_node"
        wanted = self.tokens[node_id]
        right = peer_is_loopback if wanted is None else token == wanted
        return None if right else "bad_token"

    def config(self, node_id: str) -> tuple[int, NodeRuntimeConfig]:
        if node_id not in self.tokens:
            raise KeyError(node_id)
        return self.generation, NodeRuntimeConfig(node_id=node_id)


@dataclass
class Recorder:
    """Writes down what the Edge is told about its nodes."""

    log: list[tuple] = field(default_factory=list)

    def node_connected(self, node_id: str, epoch: int, hello: Hello) -> None:
        self.log.append(("connected", node_id, epoch, tuple(work.run for work in hello.running)))

    def node_ready(self, node_id: str, ready: Ready) -> None:
        self.log.append(("ready", node_id, ready.generation))

    def node_lost(self, node_id: str, epoch: int, reason: str) -> None:
        self.log.append(("lost", node_id, epoch, reason))

    def provider_health(self, node_id: str, health: ProviderHealth) -> None:
        self.log.append(("health", node_id, health.provider_id, health.up))

    def run_ended_adopted(self, node_id: str, run: int, end: End) -> None:
        self.log.append(("adopted_end", node_id, run, end.outcome))

    def of(self, kind: str) -> list[tuple]:
        return [entry for entry in self.log if entry[0] == kind]
