"""One API call as it came in."""

import msgspec
from aiohttp import web

from iop.edge.body import read_body
from iop.edge.stock import BodyHold
from iop.openai.paths import Operation
from iop.openai.request import OpenAIRequest, read_request


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One parsed API call. `hold` counts its body until the first byte of the answer."""

    http: web.Request
    operation: Operation
    parsed: OpenAIRequest
    hold: BodyHold


async def read_call(
    request: web.Request, operation: Operation, hold: BodyHold, *, max_body: int, silence: float
) -> Call:
    """Read the body (at most `max_body` bytes, its client silent for at most `silence` seconds) and its top level.

    Raises what `read_body` and `read_request` raise.
    """
    body = await read_body(request, max_body, hold, silence=silence)
    return Call(http=request, operation=operation, parsed=read_request(body), hold=hold)
