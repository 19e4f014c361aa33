"""Frames of the Edge-Node link: how bytes on the connection are cut into control messages and body pieces.

    frame   = u32 length, u8 kind, payload          (big endian; `length` counts the payload only)
    kind 0  = control: one JSON message              (iop.link.codec)
    kind 1  = body: u32 run, u8 flags, entity bytes  (flags: bit 0 = END, all others 0)

A frame that is over its limit is refused at its header.
"""

import struct
from typing import NoReturn

import msgspec

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


#: what the length of a body frame may be
_SMALLEST_BODY, _LARGEST_BODY = _BODY_HEADER.size, _BODY_HEADER.size + MAX_PIECE


class ControlFrame(msgspec.Struct, frozen=True, gc=False):
    """The bytes of one control message, not yet decoded."""

    payload: bytes


class BodyFrame(msgspec.Struct, frozen=True, gc=False):
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


def _body(buffer: bytes, start: int, stop: int) -> BodyFrame:
    run, flags = _BODY_HEADER.unpack_from(buffer, start)
    data = buffer[start + _SMALLEST_BODY : stop]
    if flags & ~END:
        raise WireError(f"unknown body flags {flags:#04x}")
    if not data and not flags:
        raise WireError("an empty body piece that ends nothing")
    return BodyFrame(run, data, bool(flags))


class FrameReader:
    """Cuts what was received into frames. `max_control` (bytes) may be changed between two frames.

    A frame over its limit raises WireError as soon as its header is there: nothing of it is kept. Frames are cut right
    out of the received bytes; only one that came in parts is put together first.
    """

    def __init__(self, max_control: int = MAX_HELLO) -> None:
        self.max_control = max_control
        self._data = b""
        self._at = 0
        #: what came after `_data`; a frame in it is looked for when `_need` bytes of it are there
        self._rest = bytearray()
        self._need = 0

    def __len__(self) -> int:
        """Bytes that are kept here: of frames that were not asked for yet, and of one that is not whole."""
        return len(self._data) - self._at + len(self._rest)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._rest or self._at < len(self._data):
            self._rest += data
        else:
            self._data, self._at = data, 0

    def next_frame(self) -> Frame | None:
        """The next whole frame, or None when more bytes are needed. Raises WireError on a wrong one."""
        while True:
            data, at = self._data, self._at
            start = at + _HEADER.size
            if start > len(data):
                if not self._gather(_HEADER.size):
                    return None
                continue
            length, kind = _HEADER.unpack_from(data, at)
            if kind == BODY:
                if not _SMALLEST_BODY <= length <= _LARGEST_BODY:
                    self._refuse(length, kind)
            elif kind != CONTROL or length > self.max_control:
                self._refuse(length, kind)
            stop = start + length
            if stop <= len(data):
                self._at = stop
                return _body(data, start, stop) if kind == BODY else ControlFrame(data[start:stop])
            if not self._gather(stop - at):
                return None

    def _gather(self, need: int) -> bool:
        """Put what is left and what came after it together; False when that is less than `need` bytes."""
        if self._at < len(self._data):
            self._rest[:0] = memoryview(self._data)[self._at :]
        self._data, self._at = b"", 0
        self._need = max(need, self._need)
        if len(self._rest) < self._need:
            return False
        self._data, self._rest, self._need = bytes(self._rest), bytearray(), 0
        return True

    def _refuse(self, length: int, kind: int) -> NoReturn:
        if self._data.startswith(_TLS_RECORDS, self._at):
            raise WireError("the peer speaks TLS here, this end does not")
        if kind == CONTROL:
            raise WireError(f"a control frame of {length} bytes is over the limit of {self.max_control}")
        if kind == BODY:
            raise WireError(f"a body frame of {length} bytes; a piece has {MAX_PIECE} at most")
        raise WireError(f"unknown frame kind {kind}")
