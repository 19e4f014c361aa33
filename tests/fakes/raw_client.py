"""An HTTP client made of one socket: it reads as much as a test wants, and leaves how and when a test wants."""

import asyncio
import json
import re
import socket
import ssl
import struct
from dataclasses import dataclass
from typing import Any

_INTERIM = b"HTTP/1.1 100"
WITHIN = 20.0  # seconds that any one wait may take on a loaded machine


@dataclass
class Answer:
    """A whole answer: the body without its chunking; `cut` when the connection ended before the body did."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> Any:
        """The code of an error body."""
        return self.json["error"]["code"]


class RawClient:
    """One connection with one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.seen = bytearray()

    @classmethod
    async def connect(
        cls, address: tuple[str, int], *, receive_buffer: int | None = None, tls: ssl.SSLContext | None = None
    ) -> "RawClient":
        """Connect and send nothing yet; `receive_buffer` bytes is what the kernel takes for a client that is slow."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await asyncio.get_running_loop().sock_connect(sock, address)
        except OSError:
            sock.close()
            raise
        name = address[0] if tls is not None else None
        return cls(*await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=name))

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def post(self, path: str, body: bytes, *headers: str) -> None:
        """Send a POST that closes its connection."""
        lines = (f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", f"Content-Length: {len(body)}")
        await self.send("\r\n".join((*lines, *headers, "", "")).encode() + body)

    async def until(self, mark: bytes, count: int = 1) -> bytes:
        """Read until `mark` was seen `count` times; return all that came so far."""
        async with asyncio.timeout(WITHIN):
            while self.seen.count(mark) < count:
                data = await self.reader.read(65536)
                assert data, f"the server closed after {self.seen!r}"
                self.seen += data
        return bytes(self.seen)

    async def answer(self) -> Answer:
        """Read the whole answer, or to the end of the connection, whichever comes first; then close."""
        async with asyncio.timeout(WITHIN):
            try:
                while not self._whole() and (data := await self.reader.read(1 << 20)):
                    self.seen += data
            except ConnectionResetError:
                pass
        self.close()
        return parse(bytes(self.seen))

    async def ended(self) -> None:
        """Read until the server closes."""
        async with asyncio.timeout(WITHIN):
            while data := await self.reader.read(1 << 20):
                self.seen += data

    def _whole(self) -> bool:
        """True when an answer with a length or with chunks is all there, so that a server that lingers is no wait."""
        begin = 0
        while self.seen.startswith(_INTERIM, begin) and b"\r\n\r\n" in self.seen[begin:]:
            begin = self.seen.find(b"\r\n\r\n", begin) + 4
        start = self.seen.find(b"\r\n\r\n", begin) + 4
        if start < 4:
            return False
        head = bytes(self.seen[begin:start]).lower()
        if b"transfer-encoding: chunked" in head:
            return self.seen.endswith(b"\r\n0\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head)
        return length is not None and len(self.seen) - start >= int(length[1])

    def close(self) -> None:
        """End the connection with FIN."""
        self.writer.close()

    def shut(self) -> None:
        """Shut down the sending side only."""
        self.writer.write_eof()

    def reset(self) -> None:
        """End the connection with RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def parse(data: bytes) -> Answer:
    """Read one answer from what a server sent."""
    while data.startswith(_INTERIM):
        data = data.partition(b"\r\n\r\n")[2]
    block, _, rest = data.partition(b"\r\n\r\n")
    lines = block.decode("latin-1").split("\r\n")
    assert lines[0].startswith("HTTP/1."), data[:200]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    body, cut = rest, False
    if "chunked" in headers.get("transfer-encoding", ""):
        body, cut = _unchunk(rest)
    elif "content-length" in headers:
        cut = len(rest) < int(headers["content-length"])
    return Answer(int(lines[0].split(" ")[1]), headers, body, cut)


def _unchunk(data: bytes) -> tuple[bytes, bool]:
    body, at = bytearray(), 0
    while (line := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line], 16)
        if size == 0:
            return bytes(body), False
        body += data[line + 2 : line + 2 + size]
        at = line + 2 + size + 2
    return bytes(body), True
