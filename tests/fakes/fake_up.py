"""A raw TCP stand-in engine: half chunks, resets, HTTP/1.0, byte-wise writes; it records what it was sent.

async def script(exchange: Exchange) -> None:
    await exchange.send(response(200, b'{"ok": true}'))

async with FakeUp(script) as up:
    ...  # up.url is "http://127.0.0.1:<port>/v1"

`FakeUp(script, probe=healthy)` answers GETs apart: they are in neither `requests` nor `hwm`.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, cast

Script = Callable[["Exchange"], Awaitable[None]]
Fields = Sequence[tuple[str, str]]

LAST_CHUNK = b"0\r\n\r\n"
JSON: Fields = (("Content-Type", "application/json"),)
SSE: Fields = (("Content-Type", "text/event-stream"),)


def head(status: int = 200, fields: Fields = (), *, version: str = "1.1") -> bytes:
    """Return a status line and header block, nothing added."""
    lines = [f"HTTP/{version} {status} Status", *(f"{name}: {value}" for name, value in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def response(status: int = 200, body: bytes = b"{}", fields: Fields = JSON) -> bytes:
    """Return a whole answer with Content-Length."""
    return head(status, (*fields, ("Content-Length", str(len(body))))) + body


def stream_head(status: int = 200, fields: Fields = SSE) -> bytes:
    """Return the head of a chunked answer."""
    return head(status, (*fields, ("Transfer-Encoding", "chunked")))


def chunk(data: bytes) -> bytes:
    """Return one HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(data: object) -> bytes:
    """Return one SSE event with `data` as JSON (a str goes as it is)."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


class Exchange:
    """One request and the means to answer it. `peer_left` is set once the client closed, half-closed or reset."""

    def __init__(self, wire: "_Wire", raw: bytes, body: bytes) -> None:
        self._wire = wire
        self.raw = raw
        self.body = body
        self.peer_left = wire.peer_left
        lines = raw.split(b"\r\n\r\n", 1)[0].decode("latin-1").split("\r\n")
        self.method, self.path, _ = lines[0].split(" ")
        self.fields = [(name, value.strip()) for name, value in (line.split(":", 1) for line in lines[1:])]

    @property
    def json(self) -> Any:
        """The request body as JSON."""
        return json.loads(self.body)

    def field(self, name: str) -> str | None:
        """Return a request header by name in any case, or None."""
        return next((value for key, value in self.fields if key.lower() == name.lower()), None)

    async def send(self, data: bytes) -> None:
        """Write bytes as they are; waits while the peer does not read."""
        await self._wire.send(data)

    async def send_bytewise(self, data: bytes) -> None:
        """Write one byte at a time, each in its own segment."""
        for position in range(len(data)):
            await self.send(data[position : position + 1])
            await asyncio.sleep(0)

    def close(self) -> None:
        """End the connection with FIN after what was sent."""
        self._wire.transport.close()

    def reset(self) -> None:
        """End the connection with RST (SO_LINGER 1, 0)."""
        sock = self._wire.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._wire.abort()


class _Wire(asyncio.Protocol):
    """One connection: buffers what comes, tells when the peer has left."""

    def __init__(self, up: "FakeUp") -> None:
        self._up = up
        self.buffer = bytearray()
        self.busy = False
        self.is_lost = False
        self.peer_left = asyncio.Event()
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)  # a peer that does not read is felt soon
        self._up.accepted(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._news.set()

    def eof_received(self) -> bool:
        self.peer_left.set()
        self._up.over(self)
        self._news.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self.eof_received()
        self._writable.set()

    def abort(self) -> None:
        """Drop the connection; asyncio's own transport cannot be aborted once it is gone."""
        if not self.is_lost:
            self.transport.abort()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def send(self, data: bytes) -> None:
        self.transport.write(data)
        await self._writable.wait()

    async def until(self, mark: bytes, start: int = 0) -> int:
        """Wait for `mark` in the buffer; return its end, or -1 when the peer left before."""
        while (found := self.buffer.find(mark, start)) < 0:
            if not await self._more():
                return -1
        return found + len(mark)

    async def filled(self, size: int) -> bool:
        while len(self.buffer) < size:
            if not await self._more():
                return False
        return True

    async def _more(self) -> bool:
        if self.peer_left.is_set():
            return False
        self._news.clear()
        await self._news.wait()
        return True

    async def read_request(self) -> Exchange | None:
        """Return the next whole request, or None when the peer left first."""
        end = await self.until(b"\r\n\r\n")
        if end < 0:
            return None
        block = bytes(self.buffer[:end]).lower()
        if b"transfer-encoding: chunked" in block:
            body, size = await self._chunked(end)
        else:
            _, found, rest = block.partition(b"content-length:")
            size = end + (int(rest.split(b"\r\n")[0]) if found else 0)
            if not await self.filled(size):
                return None
            body = bytes(self.buffer[end:size])
        raw = bytes(self.buffer[:size])
        del self.buffer[:size]
        return Exchange(self, raw, body)

    async def _chunked(self, at: int) -> tuple[bytes, int]:
        body = bytearray()
        while True:
            line = await self.until(b"\r\n", at)
            size = int(bytes(self.buffer[at:line]).split(b";")[0], 16)
            at = line + size + 2
            await self.filled(at)
            if size == 0:
                return bytes(body), at
            body += self.buffer[line : line + size]


async def healthy(exchange: Exchange) -> None:
    """Answer a probe as an engine that is up."""
    await exchange.send(response(200, b'{"object": "list", "data": []}'))


class FakeUp:
    """The engine. `requests` in arrival order; `hwm` = most that ever ran at once; `running` = now.

    A request runs from its last byte to the end of its script, or until its client is gone.
    """

    def __init__(self, script: Script, *, probe: Script | None = None) -> None:
        self.script = script
        self.probe = probe
        self.requests: list[Exchange] = []
        self.running = 0
        self.hwm = 0
        self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._wires: set[_Wire] = set()

    def stop_listening(self) -> None:
        """Refuse connections from now on, and close those on which nothing runs, as an engine that ends does."""
        self._server.close()
        for wire in self._wires:
            if not wire.busy:
                wire.abort()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(lambda: _Wire(self), "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for wire in self._wires:
            wire.abort()
        broken = [result for result in results if isinstance(result, Exception)]
        if broken and error is None:
            raise broken[0]

    @property
    def url(self) -> str:
        """The endpoint to configure."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def peers_left(self) -> int:
        """How many requests' clients have closed their connection."""
        return sum(exchange.peer_left.is_set() for exchange in self.requests)

    def accepted(self, wire: _Wire) -> None:
        """Serve a new connection (called by the connection itself)."""
        self.connections += 1
        self._wires.add(wire)
        task = asyncio.get_running_loop().create_task(self._serve(wire))
        self._tasks.add(task)

    def over(self, wire: _Wire) -> None:
        """Count a connection's request as no longer running: its script has ended, or its client is gone."""
        self.running -= wire.busy
        wire.busy = False

    async def _serve(self, wire: _Wire) -> None:
        while (exchange := await wire.read_request()) is not None:
            if self.probe is not None and exchange.method == "GET":
                await self.probe(exchange)
                continue
            self.requests.append(exchange)
            wire.busy = True
            self.running += 1
            self.hwm = max(self.hwm, self.running)
            try:
                await self.script(exchange)
            finally:
                self.over(wire)
            if wire.transport.is_closing():
                return
        wire.transport.close()
