"""A forwarder with faults of its own: between a node and the Edge, or between a node and its engine."""

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import Callable
from typing import Literal

#: pass: as it comes · refuse: each connection is reset, old ones are closed · silence: nothing passes, nothing closes
#: slow: every piece waits · status: HTTP 500 · garbage: bytes that are no HTTP · hang: read, but never answered
#: cut: the answer breaks off in its middle · reset: the request is read, then the connection is reset
Mode = Literal["pass", "refuse", "silence", "slow", "status", "garbage", "hang", "cut", "reset"]

MARK = re.compile(rb"chaos-\d+-\d+")
SLOW_S = 0.1
CUT_AFTER = 300  # bytes of an answer
_FAULTY = {"status", "garbage", "hang", "reset"}
_BODY = b'{"error": {"message": "out of memory", "type": "server_error", "param": null, "code": null}}'
_STATUS = (
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s"
)

Seen = Callable[[str, Mode], None]


class Front:
    """Listens on loopback and forwards to `upstream()`. `seen` is told each marked request on its way there."""

    def __init__(self, upstream: Callable[[], str], seen: Seen | None = None) -> None:
        self.mode: Mode = "pass"
        self.address = ""
        self._upstream = upstream
        self._seen = seen
        self._server: asyncio.Server | None = None
        self._pairs: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._open = asyncio.Event()
        self._open.set()
        self._healed = asyncio.Event()
        self._healed.set()

    async def start(self) -> None:
        """Listen on any free port of loopback."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def turn(self, mode: Mode) -> None:
        """Change what happens: at once to what is open (`refuse`, `silence`, `slow`), else to what comes."""
        self.mode = mode
        (self._open.clear if mode == "silence" else self._open.set)()
        (self._healed.set if mode == "pass" else self._healed.clear)()
        if mode == "refuse":
            self.close_all()

    def close_all(self, *, reset: bool = False) -> None:
        """End every connection: closed in order, or reset."""
        for task, writers in tuple(self._pairs.items()):
            for writer in writers:
                _reset(writer) if reset else writer.close()
            task.cancel()

    async def close(self) -> None:
        """End everything."""
        if self._server is not None:
            self._server.close()
        tasks = tuple(self._pairs)
        self.close_all()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pairs[task] = [writer]
        try:
            await self._serve(reader, writer, self._pairs[task])
        except (OSError, asyncio.CancelledError):
            _reset(writer)
        finally:
            for one in self._pairs.pop(task):
                one.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: list[asyncio.StreamWriter]
    ) -> None:
        mode = self.mode
        if mode == "refuse":
            raise ConnectionAbortedError
        if mode in _FAULTY:
            await self._misbehave(mode, reader, writer)
            return
        host, _, port = self._upstream().rpartition(":")
        up_reader, up_writer = await asyncio.open_connection(host, int(port))
        ends.append(up_writer)
        sending = asyncio.ensure_future(self._up(reader, up_writer, mode))
        try:
            await self._down(up_reader, writer, mode)
        finally:  # the engine or the Edge has ended its side: whatever is still sent to it goes nowhere
            sending.cancel()
            await asyncio.wait([sending])

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mode: Mode) -> None:
        look = _Look(self._seen, mode)
        try:
            while data := await reader.read(65536):
                await self._pace()
                look.feed(data)
                writer.write(data)
                await writer.drain()
            await self._pace()
            if not writer.is_closing():
                writer.write_eof()
        except ConnectionError:
            writer.transport.abort()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mode: Mode) -> None:
        passed = 0
        while data := await reader.read(65536):
            await self._pace()
            if mode == "cut" and passed + len(data) > CUT_AFTER:
                writer.write(data[: max(0, CUT_AFTER - passed)])
                await writer.drain()
                return
            passed += len(data)
            writer.write(data)
            await writer.drain()

    async def _misbehave(self, mode: Mode, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        look = _Look(self._seen, mode)
        head = b""
        while b"\r\n\r\n" not in head:
            if not (data := await reader.read(65536)):
                return
            head += data
            look.feed(data)
        if mode == "hang":
            rest = asyncio.ensure_future(self._swallow(reader, look))
            healed = asyncio.ensure_future(self._healed.wait())
            try:
                await asyncio.wait([rest, healed], return_when=asyncio.FIRST_COMPLETED)
            finally:
                rest.cancel()
                healed.cancel()
            return
        with contextlib.suppress(TimeoutError):  # the body follows the head at once
            async with asyncio.timeout(0.2):
                await self._swallow(reader, look)
        if mode == "reset":
            raise ConnectionAbortedError
        writer.write(_STATUS % (len(_BODY), _BODY) if mode == "status" else b"\x00\xffno http\r\n\r\n{]")
        await writer.drain()

    async def _swallow(self, reader: asyncio.StreamReader, look: "_Look") -> None:
        while data := await reader.read(65536):
            look.feed(data)

    async def _pace(self) -> None:
        await self._open.wait()
        if self.mode == "slow":
            await asyncio.sleep(SLOW_S)


class _Look:
    """Finds the mark in the bytes of one request, and tells it once."""

    def __init__(self, seen: Seen | None, mode: Mode) -> None:
        self._seen = seen
        self._mode: Mode = mode
        self._held = b""

    def feed(self, data: bytes) -> None:
        if self._seen is None:
            return
        self._held += data
        # the character after the number says that the number is whole
        if (found := MARK.search(self._held)) is not None and found.end() < len(self._held):
            self._seen(found[0].decode(), self._mode)
            self._seen = None
            self._held = b""


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a reset instead of an orderly end."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
