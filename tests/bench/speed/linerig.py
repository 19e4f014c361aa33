"""50 nodes with 20 providers of one slot each before a real Edge: the nodes and the clients are played here."""

import asyncio
import hashlib
import json
import time
from collections import deque
from typing import Any

import yaml

from iop.link.messages import PROTOCOL, Cancel, Config, End, Head, Hello, ProviderHealth, Ready, Run
from iop.node.dialer import Dialer
from iop.transport.link import LinkConnection
from tests.bench.speed.place import KEY, MODEL

NODES, PROVIDERS = 50, 20
SLOTS = NODES * PROVIDERS

_STREAM_HEAD = (("content-type", "text/event-stream"),)
_CHUNK = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'


def config(openai: int, nodes: int, admin: int) -> str:
    """The edge.yaml: one model that all providers serve; its ports are of loopback."""
    return yaml.safe_dump(
        {
            "edge": {"id": "edge-line"},
            "listen": {
                "openai": f"127.0.0.1:{openai}", "nodes": f"127.0.0.1:{nodes}", "admin": f"127.0.0.1:{admin}",
            },
            "auth": {"api_keys": [{"name": "bench", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]},
            "queue": {"max_waiting": 20_000, "max_wait": "10m"},
            "stream": {"keepalive_after": "10m"},
            "nodes": [_node(number) for number in range(NODES)],
            "models": [{"id": MODEL, "providers": {name: MODEL for n in range(NODES) for name in _providers(n)}}],
        }
    )  # fmt: skip


def _providers(node: int) -> list[str]:
    return [f"p{node}-{number}" for number in range(PROVIDERS)]


def _node(number: int) -> dict[str, Any]:
    engine = {"name": "e", "enabled": True, "provider": "other", "endpoint": "http://127.0.0.1:9/v1"}
    providers = [
        {"id": name, "type": "other", "category": "local_inference", "adapter": "e", "capacity": 1}
        for name in _providers(number)
    ]
    return {"id": f"n{number}", "adapters": {"openai_compat_instances": [engine]}, "providers": providers}


class Nodes:
    """All nodes of the pool: they hold each run until they are told to end it, the oldest first."""

    def __init__(self, port: int) -> None:
        self.held: deque[tuple[LinkConnection, Run]] = deque()
        self._next: asyncio.Future[float] | None = None
        self._streams: deque[tuple[LinkConnection, Run]] = deque()
        self._dialers = [
            Dialer(
                address=("127.0.0.1", port),
                hello=lambda number=number: Hello(  # type: ignore[misc]
                    protocol=PROTOCOL, node_id=f"n{number}", instance_id=f"i{number}"
                ),
                handler=_Player(self, number),
            )
            for number in range(NODES)
        ]

    async def serve(self) -> None:
        """Keep all links up until cancelled."""
        async with asyncio.TaskGroup() as group:
            for dialer in self._dialers:
                group.create_task(dialer.run_forever())

    def took(self, conn: LinkConnection, run: Run) -> None:
        """A run was handed over to one of the nodes."""
        self.held.append((conn, run))
        if self._next is not None and not self._next.done():
            self._next.set_result(time.perf_counter())
        if run.stream:
            conn.send(Head(run=run.run, status=200, headers=_STREAM_HEAD))
            conn.offer_body(run.run, _CHUNK)
            self._streams.append((conn, run))

    async def hand_over(self) -> float:
        """End the oldest run; returns the seconds from that to the arrival of the next one at its node."""
        conn, run = self.held.popleft()
        self._next = asyncio.get_running_loop().create_future()
        begun = time.perf_counter()
        if run.stream:
            self._streams.remove((conn, run))
        else:
            conn.send(Head(run=run.run, status=200, headers=(("content-type", "application/json"),)))
        conn.offer_body(run.run, b"data: [DONE]\n\n" if run.stream else b"{}", end=True)
        conn.send(End(run=run.run, outcome="completed"))
        conn.forget(run.run)
        async with asyncio.timeout(10):
            return await self._next - begun

    def chunk(self, count: int) -> None:
        """So many open streams get a chunk, each in its turn."""
        for conn, run in list(self._streams)[:count]:
            conn.offer_body(run.run, _CHUNK)
            self._streams.rotate(-1)


class _Player:
    """One node: its providers are up, and it answers what it must."""

    def __init__(self, nodes: Nodes, number: int) -> None:
        self._nodes = nodes
        self._number = number

    def on_config(self, conn: LinkConnection, config: Config) -> None:
        conn.send(Ready(generation=config.generation))
        for name in _providers(self._number):
            conn.send(ProviderHealth(provider_id=name, up=True))

    def on_run(self, conn: LinkConnection, run: Run) -> None:
        self._nodes.took(conn, run)

    def on_body(self, conn: LinkConnection, run: int, data: bytes, end: bool) -> None:
        conn.drained(run, len(data))

    def on_cancel(self, conn: LinkConnection, cancel: Cancel) -> None:
        conn.send(End(run=cancel.run, outcome="cancelled"))

    def on_going_away(self) -> None:
        """The Edge stops."""

    def on_lost(self, reason: str) -> None:
        """The link is gone."""


class Clients:
    """Clients on connections of their own, that ask once and take what comes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: set[_Client] = set()

    async def ask(self, count: int = 1, *, stream: bool = False) -> None:
        """So many more ask; returns when their requests are written."""
        body = json.dumps({"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": "hello"}]})
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        request, loop = (head + body).encode(), asyncio.get_running_loop()
        for _ in range(count):
            transport, client = await loop.create_connection(lambda: _Client(self._open), "127.0.0.1", self._port)
            client.transport = transport
            transport.write(request)

    def leave(self) -> None:
        """All go at once."""
        for client in tuple(self._open):
            if client.transport is not None:
                client.transport.close()


class _Client(asyncio.Protocol):
    def __init__(self, there: "set[_Client]") -> None:
        self.transport: asyncio.WriteTransport | None = None
        self._there = there
        there.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._there.discard(self)
