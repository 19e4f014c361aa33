"""What a connection of the link has to write: the frames of one turn of the loop go out together.

A frame by itself costs a system call here and a wake-up of the peer, many times what it costs to make it. So frames
wait for the end of the turn in which they were made, in order, and are written as one.
"""

import asyncio
from collections.abc import Callable

#: bytes that wait for the end of the turn at most
FLUSH_AT = 32 * 1024
#: a frame of so many bytes is written by itself: to copy it once more costs as much as to write it
LARGE = 8 * 1024
#: bytes waiting to be written that only a peer can cause that does not read: control messages do not wait
WRITE_LIMIT = 16 * 1024 * 1024


class Outbox:
    """The frames of one connection on their way to its `transport`; `overflow` is told when its peer does not read."""

    __slots__ = ("_due", "_frames", "_loop", "_overflow", "_size", "_transport")

    def __init__(self, transport: asyncio.Transport, overflow: Callable[[str], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._overflow = overflow
        self._frames: list[bytes] = []
        self._size = 0
        self._due = False

    def put(self, frame: bytes) -> None:
        """Write a frame, at the end of this turn at the latest."""
        size = len(frame)
        if size >= LARGE:
            self.flush()
            self._write(frame)
            return
        self._frames.append(frame)
        self._size += size
        if self._size >= FLUSH_AT:
            self.flush()
        elif not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def hold(self) -> None:
        """The caller itself will `flush` in this turn."""
        self._due = True

    def flush(self) -> None:
        """Write now what waits."""
        self._due = False
        if self._frames:
            data = self._frames[0] if len(self._frames) == 1 else b"".join(self._frames)
            self._frames.clear()
            self._size = 0
            self._write(data)

    def _write(self, data: bytes) -> None:
        # a closing transport must not be written to: uvloop raises, asyncio warns
        if self._transport.is_closing():
            return
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > WRITE_LIMIT:
            self._overflow(f"the peer does not read: {WRITE_LIMIT} bytes wait for it")
