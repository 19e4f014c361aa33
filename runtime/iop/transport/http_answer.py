"""An answer that passes through: its head, and its body piece by piece, written to the client as they come.

aiohttp's own responses cost several times what the rest of a request does (header maps, a writer's steps per piece). Of
its `StreamResponse` only what the server asks is kept: `prepare`, `write_eof`, `keep_alive`, `prepared`.
"""

import functools
import http
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

from iop.transport.http_connection import GUARDS, JsonRequestHandler, is_retiring

#: statuses that have no body and no length (RFC 9110 8.6)
_BODILESS = frozenset({204, 304})
_GUARDS = "".join(f"{name}: {value}\r\n" for name, value in GUARDS.items())
_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}


class Answer(web.StreamResponse):
    """One answer to `request`. `whole` is a body that is there already: it goes out when the server ends the answer.
    Any other is chunked, or, for HTTP/1.0, ends with the connection.

    The head goes out with the first piece, or with `flush`. `headers` are those of the answer's own, and what each
    answer of the port has is added. Raises ValueError for a header with a line end in it.
    """

    def __init__(
        self, request: web.BaseRequest, status: int, headers: Mapping[str, str], *, whole: bytes | None = None
    ) -> None:
        super().__init__(status=status)
        self._to = request
        self._protocol = request.protocol
        self._has_body = status not in _BODILESS
        self._rest = whole or b""
        self._is_chunked = whole is None and self._has_body and request.version >= HttpVersion11
        is_framed = self._is_chunked or whole is not None or not self._has_body
        self._keeps = is_framed and request.keep_alive and not is_retiring(request)
        self._head = self._head_of(status, headers, None if whole is None else len(whole))
        self._is_over = False

    @property
    def prepared(self) -> bool:
        """True: its head is made."""
        return True

    @property
    def keep_alive(self) -> bool:
        """Whether the connection serves further requests."""
        return self._keeps

    @property
    def is_behind(self) -> bool:
        """True while the client reads more slowly than this answer comes."""
        return self._protocol.writing_paused

    @property
    def is_cut(self) -> bool:
        """True when the client is gone."""
        transport = self._protocol.transport
        return transport is None or transport.is_closing()

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, in the turn in which the client is no longer behind."""
        assert isinstance(self._protocol, JsonRequestHandler)
        self._protocol.when_writable(callback)

    def push(self, data: bytes) -> None:
        """Send bytes of the body, without waiting. Raises ConnectionResetError when the client is gone."""
        if not data or not self._has_body:
            return
        self._send(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    def flush(self) -> None:
        """Send the head if it is not out. Raises ConnectionResetError when the client is gone."""
        if self._head:
            self._send(b"")

    async def caught_up(self) -> None:
        """Wait until the client has read most of what was sent. Raises ConnectionError when it is gone."""
        await self._to.writer.drain()

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:  # noqa: ARG002 - aiohttp's
        """aiohttp: the head is made already."""
        return None

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes of the body, and wait while the client is behind."""
        self.push(bytes(data))
        if self.is_behind:
            await self.caught_up()

    async def write_eof(self, data: bytes = b"") -> None:
        """Send what is left, and end the answer. A repeat does nothing."""
        if self._is_over:
            return
        self._is_over = True
        self.push(data)
        rest = self._rest if self._has_body else b""
        self._rest = b""
        self._send(b"0\r\n\r\n" if self._is_chunked else rest)

    def _send(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        transport = self._protocol.transport
        if transport is None or transport.is_closing():  # uvloop raises another error
            raise ConnectionResetError("the client is gone")
        if data:
            self._to.writer.output_size += len(data)  # what the border asks: has it begun?
            transport.write(data)

    def _head_of(self, status: int, headers: Mapping[str, str], length: int | None) -> bytes:
        major, minor = self._to.version
        framing = "Transfer-Encoding: chunked\r\n" if self._is_chunked else ""
        if length is not None and self._has_body:
            framing = f"Content-Length: {length}\r\n"
        if self._keeps != (minor >= 1):  # what HTTP/1.1 takes for granted, and HTTP/1.0 does not, is not said
            framing += "Connection: keep-alive\r\n" if self._keeps else "Connection: close\r\n"
        if self._has_body and length != 0 and "content-type" not in headers:
            framing += "Content-Type: application/octet-stream\r\n"  # RFC 9110 8.3: what nobody has named
        own = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if own.count("\n") != len(headers) or own.count("\r") != len(headers):
            raise ValueError("a header with a line end in it")
        line = f"HTTP/{major}.{minor} {status} {_PHRASES.get(status, '')}\r\n"
        return f"{line}{own}{framing}{_date(int(time.time()))}{_GUARDS}\r\n".encode("latin-1")


@functools.lru_cache(maxsize=1)
def _date(second: int) -> str:
    return f"Date: {formatdate(second, usegmt=True)}\r\n"
