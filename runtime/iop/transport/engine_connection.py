"""One connection to an engine, which carries one exchange at a time."""

import asyncio
from collections.abc import Callable
from typing import cast

from iop.transport.engine_answer import EngineAnswer, EngineError
from iop.transport.engine_reader import FIRST_FINAL, AnswerReader
from iop.transport.unread import is_readable

#: bytes of a request that are handed to the transport at once; more wait until these are written
_PIECE = 64 * 1024


class EngineConnection(asyncio.Protocol):
    """A connected socket. `on_idle` is called when an exchange has left it fit for another, `on_gone` at its end, and
    `on_stray` when its engine sent what nobody had asked for, or an answer that began with such bytes.

    `closed` is done once the socket is closed.
    """

    def __init__(
        self,
        on_idle: Callable[["EngineConnection"], None],
        on_gone: Callable[["EngineConnection"], None],
        on_stray: Callable[[], None],
    ) -> None:
        self.closed = asyncio.get_running_loop().create_future()
        #: when its last exchange ended, in the loop's time
        self.idle_since = 0.0
        self._on_idle = on_idle
        self._on_gone = on_gone
        self._on_stray = on_stray
        self._was_used = False
        self._transport: asyncio.Transport | None = None
        self._reader = AnswerReader()
        self._answer: EngineAnswer | None = None
        self._unsent = memoryview(b"")
        self._writable = True
        self._holds = False
        self._half_closed = False

    @property
    def usable(self) -> bool:
        """True until it is known to be closing, or to have bytes that belong to no exchange."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and not is_readable(transport)

    @property
    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, head: bytes, body: bytes) -> EngineAnswer:
        """Send a request; the answer comes later. Only while `usable`, and no exchange is under way."""
        assert self._transport is not None
        self._reader.reset()
        self._answer = EngineAnswer(self)
        if len(body) <= _PIECE:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._unsent = memoryview(body)
            self._write_more()
        return self._answer

    # Carrier

    def hold(self) -> None:
        """Let the engine wait: its bytes are not taken."""
        if self._transport is not None and not self._transport.is_closing():
            self._holds = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Take its bytes again."""
        if self._holds and self._transport is not None and not self._transport.is_closing():
            self._holds = False
            self._transport.resume_reading()

    def half_close(self) -> bool:
        """Tell the engine that nobody sends any more; False where that cannot be told."""
        if self._transport is None or self._transport.is_closing() or not self._transport.can_write_eof():
            return False
        self._half_closed = True
        self._unsent = memoryview(b"")
        self._transport.write_eof()
        return True

    def abort(self) -> None:
        """End the connection at once: a plain close would wait until an engine that does not read has taken the rest
        of the request. Safe to call twice.
        """
        self._answer = None
        self._unsent = memoryview(b"")
        if self._transport is not None and not self.closed.done():
            self._transport.abort()

    def cut(self) -> None:
        """End the connection at once; who waits for the rest of an answer is told."""
        self._fail(self._lost("the connection was given up here"))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the socket is connected."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came."""
        answer, reader = self._answer, self._reader
        if answer is None:  # nobody asked for anything
            if self._was_used and self._is_open and not self._half_closed:
                self._on_stray()
            self.abort()
            return
        body = reader.feed(data)
        if reader.status and not answer.status:
            if reader.status < FIRST_FINAL:
                self._fail(EngineError("broken", f"status {reader.status} is no final answer"))
                return
            answer.begin(reader.status, reader.headers)
        if body:
            answer.feed(body)
        if reader.done:
            self._end(answer)
        elif reader.fault is not None:
            if self._was_used and not answer.status:
                self._on_stray()  # what stands here may be the rest of the answer before
            self._fail(EngineError("broken", reader.fault))

    def eof_received(self) -> None:
        """asyncio: the engine has closed its side. The transport closes itself after this."""
        answer = self._answer
        if answer is None:
            return
        if answer.status and answer.ends_with_connection:
            self._answer = None
            answer.end()
        else:
            self._fail(self._lost("the connection was closed"))

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the socket is closed."""
        if self._answer is not None:
            self._fail(self._lost(_words(exc) if exc is not None else "the connection was closed"))
        self._unsent = memoryview(b"")
        self.closed.set_result(None)
        self._on_gone(self)

    def pause_writing(self) -> None:
        """asyncio: the engine reads more slowly than we write."""
        self._writable = False

    def resume_writing(self) -> None:
        """asyncio: the engine caught up."""
        self._writable = True
        self._write_more()

    # internals

    def _write_more(self) -> None:
        while self._unsent and self._writable and self._is_open and self._transport is not None:
            piece, self._unsent = self._unsent[:_PIECE], self._unsent[_PIECE:]
            self._transport.write(piece)

    def _end(self, answer: EngineAnswer) -> None:
        """The answer came to its own end."""
        assert self._transport is not None
        self._answer, self._was_used = None, True
        if self._reader.strayed:
            self._on_stray()
        answer.end()
        is_sent = not self._unsent and self._transport.get_write_buffer_size() == 0
        if self._reader.keep and is_sent and not self._half_closed and self._is_open:
            self.resume()
            self._on_idle(self)
        else:
            self.abort()

    def _fail(self, error: EngineError) -> None:
        """The answer is no answer, or was cut."""
        answer = self._answer
        self.abort()
        if answer is not None:
            answer.end(error)

    def _lost(self, how: str) -> EngineError:
        if self._answer is not None and self._answer.status:
            return EngineError("broken", f"the answer was cut: {how}")
        if self._reader.touched:
            return EngineError("broken", "the answer was cut within its headers")
        return EngineError("reset", f"{how} before a status line")


def _words(error: BaseException) -> str:
    """Say how a connection was lost, in one line."""
    return f"the connection was lost ({getattr(error, 'strerror', None) or type(error).__name__})"
