"""Undoing a content coding that an engine used although `identity` was asked for: gzip and deflate, also chained."""

import zlib
from collections.abc import Iterable, Iterator

#: bytes that one call may inflate to before they are passed on: a small body may unpack to gigabytes
PIECE = 64 * 1024
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_KNOWN = frozenset({"gzip", "x-gzip", "deflate"})


class UndecodableError(Exception):
    """The coding is unknown here, or the bytes are not what it says."""


class Decoder:
    """Decodes a body as it comes. `codings` is the value of Content-Encoding; empty or `identity` changes nothing.

    Raises UndecodableError for a coding that is not gzip or deflate.
    """

    def __init__(self, codings: str) -> None:
        names = [name for name in (part.strip().lower() for part in codings.split(",")) if name not in {"", "identity"}]
        unknown = [name for name in names if name not in _KNOWN]
        if unknown:
            raise UndecodableError(f"content coding {unknown[0]!r:.40} cannot be decoded; identity was asked for")
        # the coding that was applied last comes off first
        self._layers = [_Inflate() for _ in names]

    @property
    def finished(self) -> bool:
        """True when no coding waits for more bytes."""
        return all(layer.finished for layer in self._layers)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` decodes to, in pieces of at most `PIECE` bytes when it was coded."""
        pieces: Iterable[bytes] = (data,)
        for layer in self._layers:
            pieces = layer.all(pieces)
        return iter(pieces)


class _Inflate:
    """One gzip or zlib layer; members of a gzip file may follow each other."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._begun = False

    @property
    def finished(self) -> bool:
        return self._inflater.eof or not self._begun

    def all(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            yield from self._one(piece)

    def _one(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inflater.eof:
                self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
            out = self._inflate(data)
            if out:
                yield out
            data = self._inflater.unconsumed_tail or self._inflater.unused_data
            while len(out) == PIECE and not data and not self._inflater.eof:
                # the input is taken, but more than one piece of output was waiting
                out = self._inflate(b"")
                if out:
                    yield out

    def _inflate(self, data: bytes) -> bytes:
        try:
            out = self._inflater.decompress(data, PIECE)
        except zlib.error:
            if self._begun:
                raise UndecodableError("the coded answer is damaged") from None
            # "deflate" is often sent without the zlib header it should have
            self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                out = self._inflater.decompress(data, PIECE)
            except zlib.error:
                raise UndecodableError("the coded answer is damaged") from None
        self._begun = True
        return out
