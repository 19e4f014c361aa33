"""Content codings of request bodies: undone as the bytes come, in pieces of bounded size."""

import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from iop.domain.errors import BadRequest, UnsupportedEncoding

#: bytes given out at once: a few KiB can hold 50 MiB of zeros
STEP = 256 * 1024
#: gzip members or zstd frames of one body; parallel compressors write one for each block
MAX_MEMBERS = 1000
#: log2 of the window that a zstd frame may ask for: 8 MiB, as RFC 9659 has it for HTTP
ZSTD_WINDOW = 23

_ZLIB_METHOD, _ZLIB_CHECK = 8, 31


class Decoder(Protocol):
    """Undoes one body's coding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next bytes decode to, at most `STEP` bytes at once. Raises BadRequest."""

    def finish(self) -> None:
        """Raise BadRequest if the coded body is not whole."""


class _Member(Protocol):
    """One gzip member, zlib stream or zstd frame. `rest` holds the bytes behind its end."""

    eof: bool
    rest: bytes

    def pieces(self, data: bytes) -> Iterator[bytes]: ...


class _Plain:
    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def finish(self) -> None:
        return None


class _Zlib:
    def __init__(self, wbits: int) -> None:
        self._decoder = zlib.decompressobj(wbits)
        self.eof = False
        self.rest = b""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            while True:
                out = self._decoder.decompress(data, STEP)
                if out:
                    yield out
                data = self._decoder.unconsumed_tail
                if not data and len(out) < STEP:
                    break
        except zlib.error as error:
            raise _wrong(error) from None
        self.eof, self.rest = self._decoder.eof, self._decoder.unused_data


class _Deflate:
    """`deflate` is sent with and without the zlib header, which two bytes tell."""

    def __init__(self) -> None:
        self._head = b""
        self._inner: _Zlib | None = None
        self.eof = False
        self.rest = b""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self._inner is None:
            self._head += data
            if len(self._head) < 2:
                return
            first, second = self._head[:2]
            has_header = first & 0x0F == _ZLIB_METHOD and (first * 256 + second) % _ZLIB_CHECK == 0
            self._inner = _Zlib(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
            data = self._head
        yield from self._inner.pieces(data)
        self.eof, self.rest = self._inner.eof, self._inner.rest


class _Zstd:
    def __init__(self) -> None:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
        self._decoder = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW})
        self._fault = zstd.ZstdError
        self.eof = False
        self.rest = b""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            while True:
                out = self._decoder.decompress(data, STEP)
                if out:
                    yield out
                data = b""
                if self._decoder.eof or self._decoder.needs_input:
                    break
        except self._fault as error:
            raise _wrong(error) from None
        self.eof, self.rest = self._decoder.eof, self._decoder.unused_data


class _Members:
    """A body of one member after another; at most `most`, and nothing behind the last."""

    def __init__(self, start: Callable[[], _Member], most: int) -> None:
        self._start = start
        self._left = most
        self._member: _Member | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._member is None or self._member.eof:
                if self._left == 0:
                    raise BadRequest("The body goes on after the end of its compressed stream.")
                self._left -= 1
                self._member = self._start()
            yield from self._member.pieces(data)
            data = self._member.rest

    def finish(self) -> None:
        if self._member is not None and not self._member.eof:
            raise BadRequest("The compressed body is cut short.")


def decoder_for(content_encodings: Sequence[str]) -> Decoder:
    """Return the decoder for the values of `Content-Encoding`: none, or one of gzip, deflate and zstd.

    Raises UnsupportedEncoding for any other coding, and for several: each could multiply a body's size.
    """
    names = [name.strip().lower() for value in content_encodings for name in value.split(",")]
    match [name for name in names if name not in ("", "identity")]:
        case []:
            return _Plain()
        case ["gzip" | "x-gzip"]:
            return _Members(lambda: _Zlib(16 + zlib.MAX_WBITS), MAX_MEMBERS)
        case ["deflate"]:
            return _Members(_Deflate, 1)
        case ["zstd"]:
            return _Members(_Zstd, MAX_MEMBERS)
        case others:
            shown = ", ".join(others)[:60]
            raise UnsupportedEncoding(
                f"Content-Encoding {shown!r} is not supported: send one of gzip, deflate and zstd, or a plain body."
            )


def _wrong(error: Exception) -> BadRequest:
    return BadRequest(f"The body does not decode as its Content-Encoding says: {error}.")
