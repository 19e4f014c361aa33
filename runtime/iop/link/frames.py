"""Frames of the Edge-Node link: how bytes on the connection are cut into control messages and body pieces.

    frame   = u32 length, u8 kind, payload          (big endian; `length` counts the payload only)
    kind 0  = control: one JSON message              (iop.link.codec)
    kind 1  = body: u32 run, u8 flags, entity bytes  (flags: bit 0 = END, all others 0)

A frame that is over its limit is refused at its header.
"""

import struct
from dataclasses import dataclass

from iop.link.errors import WireError

CONTROL = 0
BODY = 1
END = 1

#: bytes of entity in one body frame at most: far below any limit, so that no body holds the link for long
MAX_PIECE = 64 * 1024
#: bytes of a control message at most; the largest one is a `config` with its CLI targets
MAX_CONTROL = 1024 * 1024
#: bytes of the first frame at most: it comes from a stranger
MAX_HELLO = 64 * 1024

#: how a TLS record begins (alert or handshake, version 3.x); as a length it would be far over any limit
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")

_HEADER = struct.Struct(">IB")
_BODY_HEADER = struct.Struct(">IB")
_WHOLE_BODY_HEADER = struct.Struct(">IBIB")


@dataclass(frozen=True, slots=True)
class ControlFrame:
    """The bytes of one control message, not yet decoded."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class BodyFrame:
    """A piece of a run's body; `end` marks the last one."""

    run: int
    data: bytes
    end: bool


Frame = ControlFrame | BodyFrame


def control_frame(payload: bytes) -> bytes:
    """The frame of a control message. Raises WireError when it is over MAX_CONTROL."""
    if len(payload) > MAX_CONTROL:
        raise WireError(f"a control message of {len(payload)} bytes is over the limit of {MAX_CONTROL}")
    return _HEADER.pack(len(payload), CONTROL) + payload


def body_frame(run: int, data: bytes | memoryview, *, end: bool) -> bytes:
    """The frame of a body piece. Raises WireError when `data` is over MAX_PIECE."""
    if len(data) > MAX_PIECE:
        raise WireError(f"a body piece of {len(data)} bytes is over the limit of {MAX_PIECE}")
    header = _WHOLE_BODY_HEADER.pack(_BODY_HEADER.size + len(data), BODY, run, END if end else 0)
    return b"".join((header, data))


class FrameReader:
    """Cuts what was received into frames. `max_control` (bytes) may be changed between two frames.

    A frame over its limit raises WireError as soon as its header is there: nothing of it is kept.
    """

    def __init__(self, max_control: int = MAX_HELLO) -> None:
        self.max_control = max_control
        self._buffer = bytearray()
        self._at = 0

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._buffer += data

    def next_frame(self) -> Frame | None:
        """The next whole frame, or None when more bytes are needed. Raises WireError on a wrong one."""
        start = self._at + _HEADER.size
        if len(self._buffer) < start:
            self._compact()
            return None
        if self._buffer.startswith(_TLS_RECORDS, self._at):
            raise WireError("the peer speaks TLS here, this end does not")
        length, kind = _HEADER.unpack_from(self._buffer, self._at)
        self._check(length, kind)
        if len(self._buffer) < start + length:
            self._compact()
            return None
        self._at = start + length
        if kind == CONTROL:
            return ControlFrame(self._slice(start, self._at))
        run, flags = _BODY_HEADER.unpack_from(self._buffer, start)
        data = self._slice(start + _BODY_HEADER.size, self._at)
        if flags & ~END:
            raise WireError(f"unknown body flags {flags:#04x}")
        if not data and not flags:
            raise WireError("an empty body piece that ends nothing")
        return BodyFrame(run, data, bool(flags))

    def _check(self, length: int, kind: int) -> None:
        if kind == CONTROL:
            if length > self.max_control:
                raise WireError(f"a control frame of {length} bytes is over the limit of {self.max_control}")
        elif kind == BODY:
            if not _BODY_HEADER.size <= length <= _BODY_HEADER.size + MAX_PIECE:
                raise WireError(f"a body frame of {length} bytes; a piece has {MAX_PIECE} at most")
        else:
            raise WireError(f"unknown frame kind {kind}")

    def _compact(self) -> None:
        if self._at:
            del self._buffer[: self._at]
            self._at = 0

    def _slice(self, start: int, stop: int) -> bytes:
        with memoryview(self._buffer) as view, view[start:stop] as part:
            return bytes(part)
