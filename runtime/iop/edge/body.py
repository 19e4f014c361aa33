"""Reading a request body: whole, bounded, decoded once."""

import asyncio

from aiohttp import HttpVersion11, web

from iop.domain.errors import BadRequest, BodyTooLarge
from iop.edge.codings import STEP, decoder_for
from iop.edge.stock import BodyHold

_CONTINUE = "100-continue"


def too_large(limit: int) -> BodyTooLarge:
    """The 413 that names the limit and its knob."""
    return BodyTooLarge(f"The request body is over {limit} bytes (http.max_body).")


async def read_body(request: web.Request, limit: int, hold: BodyHold, *, silence: float) -> bytes:
    """Read the whole body, at most `limit` bytes, as sent and as decoded; `hold` counts it. Its client may be silent
    for `silence` seconds: what is held of a body that never gets whole is room that others wait for.

    Raises BodyTooLarge (by Content-Length before anything is read), UnsupportedEncoding, BadRequest (does not decode,
    the client broke off or fell silent, or expects what is not known), QueueFull (no room in the stock).
    """
    expected = request.headers.get("Expect")
    if expected is not None and expected.lower() != _CONTINUE:
        raise BadRequest("Only 'Expect: 100-continue' is understood.")
    if request.content_length is not None and request.content_length > limit:
        raise too_large(limit)
    hold.check(request.content_length or 1)
    decoder = decoder_for(request.headers.getall("Content-Encoding", []))
    if expected is not None:
        await _ask_for_it(request)
    parts: list[bytes] = []
    received = decoded = 0
    while piece := await _next_piece(request, silence):
        received += len(piece)
        if received > limit:
            raise too_large(limit)
        for out in decoder.feed(piece):
            decoded += len(out)
            if decoded > limit:
                raise too_large(limit)
            hold.add(len(out))
            parts.append(out)
            if len(out) == STEP:
                await asyncio.sleep(0)  # others' turn: one piece can decode to all that is allowed
    if received:
        decoder.finish()
    return parts[0] if len(parts) == 1 else b"".join(parts)


def is_here(request: web.Request) -> bool:
    """Return whether the whole body, as sent, has come."""
    return request.content.is_eof()


async def _next_piece(request: web.Request, silence: float) -> bytes:
    """Return what has come, empty at the end. Raises BadRequest when nothing comes for `silence` seconds, or no more
    will.
    """
    try:
        if is_here(request):
            return request.content.read_nowait()
        async with asyncio.timeout(silence):
            return await request.content.readany()
    except TimeoutError:
        text = f"The request body stopped coming: nothing for {silence:g}s (stream.idle_timeout), and it is not whole."
        raise BadRequest(text) from None
    except web.RequestPayloadError as error:
        raise BadRequest("The request body broke off or is framed wrongly.") from error


async def expect_handler(_request: web.Request) -> web.StreamResponse | None:
    """Grant nothing yet (aiohttp calls this before the handler, and would grant it).

    100-continue is granted by `read_body` when it begins to read: a client that is refused for its headers, its key or
    its length is told so before it sends anything.
    """
    return None


async def _ask_for_it(request: web.Request) -> None:
    """Grant `100-continue`, unless an HTTP/1.0 client (which knows no interim answers) expects it."""
    if request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
