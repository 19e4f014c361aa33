"""Reading a request body: whole, bounded, decoded once."""

import zlib

from aiohttp import HttpVersion11, web

from iop.domain.errors import BadRequest, BodyTooLarge, UnsupportedEncoding
from iop.edge.stock import BodyHold
from iop.transport.http_border import error_response

_CONTINUE = "100-continue"


class _Plain:
    def feed(self, data: bytes, _room: int) -> bytes:
        return data

    def finish(self) -> None:
        return None


class _Inflate:
    """One zlib/gzip stream, never holding more than `room` decoded bytes."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._decoder = zlib.decompressobj(wbits)
        self._fed = False

    def feed(self, data: bytes, room: int) -> bytes:
        try:
            out = self._decoder.decompress(data, room + 1)
        except zlib.error:
            if self._fed or self._wbits != zlib.MAX_WBITS:
                raise BadRequest("The body does not decode as its Content-Encoding says.") from None
            # "deflate" is sent both with and without the zlib header
            self._wbits = -zlib.MAX_WBITS
            self._decoder = zlib.decompressobj(self._wbits)
            return self.feed(data, room)
        self._fed = True
        if self._decoder.unused_data:
            raise BadRequest("The body goes on after the end of its compressed stream.")
        return out

    def finish(self) -> None:
        if not self._decoder.eof:
            raise BadRequest("The compressed body is cut short.")


def _decoder(request: web.Request) -> _Plain | _Inflate:
    encodings = [e.strip().lower() for v in request.headers.getall("Content-Encoding", []) for e in v.split(",")]
    encodings = [e for e in encodings if e and e != "identity"]
    if not encodings:
        return _Plain()
    if encodings in (["gzip"], ["x-gzip"]):
        return _Inflate(16 + zlib.MAX_WBITS)
    if encodings == ["deflate"]:
        return _Inflate(zlib.MAX_WBITS)
    shown = ", ".join(encodings)[:60]
    raise UnsupportedEncoding(f"Content-Encoding {shown!r} is not supported: send gzip, deflate or a plain body.")


def too_large(limit: int) -> BodyTooLarge:
    """The 413 that names the limit and its knob."""
    return BodyTooLarge(f"The request body is over {limit} bytes (http.max_body).")


async def read_body(request: web.Request, limit: int, hold: BodyHold) -> bytes:
    """Read the whole body, at most `limit` bytes, as sent and as decoded; `hold` counts it.

    Raises BodyTooLarge (by Content-Length before anything is read), UnsupportedEncoding, BadRequest (does not decode,
    or the client broke off), QueueFull (no room in the stock).
    """
    if request.content_length is not None and request.content_length > limit:
        raise too_large(limit)
    hold.check(request.content_length or 1)
    decoder = _decoder(request)
    await _ask_for_it(request)
    parts: list[bytes] = []
    received = decoded = 0
    try:
        async for piece in request.content.iter_any():
            received += len(piece)
            out = decoder.feed(piece, limit - decoded)
            decoded += len(out)
            if received > limit or decoded > limit:
                raise too_large(limit)
            hold.add(len(out))
            parts.append(out)
    except web.RequestPayloadError as error:
        raise BadRequest("The request body broke off or is framed wrongly.") from error
    if received:
        decoder.finish()
    return b"".join(parts)


async def expect_handler(request: web.Request) -> web.StreamResponse | None:
    """Refuse any `Expect` but 100-continue with a 400 (aiohttp calls this before the handler).

    100-continue is granted by `read_body` when it begins to read: a client that is refused for its headers, its key or
    its length is told so before it sends anything.
    """
    if request.headers.get("Expect", "").lower() != _CONTINUE:
        return error_response(BadRequest("Only 'Expect: 100-continue' is understood."), request)
    return None


async def _ask_for_it(request: web.Request) -> None:
    """Grant `Expect: 100-continue`, unless an HTTP/1.0 client (which knows no interim answers) said it."""
    if request.headers.get("Expect", "").lower() == _CONTINUE and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
