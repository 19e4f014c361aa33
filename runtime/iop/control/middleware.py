"""The Control Plane's outer skin: who may speak (Host, Origin), and errors as JSON."""

import uuid

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from iop.domain.errors import BadRequest, IopError, MethodNotAllowed, NotFound
from iop.openai import errors, headers
from iop.transport.hosts import HostRule

PATHS = "GET /, /edges, /edges/{id}/status, /edges/{id}/events, /healthz"


def request_id(request: web.Request) -> str:
    """The client's own `x-request-id` if it is one, else a new one. Ask once per answer."""
    own = request.headers.get("x-request-id", "")
    return own if headers.valid_request_id(own) else f"req_{uuid.uuid4().hex}"


@web.middleware
async def error_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn refusals into JSON error objects, and give every answer its `x-request-id`."""
    response = await _answer(request, handler)
    if not response.prepared:
        response.headers.setdefault("x-request-id", request_id(request))
    return response


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except IopError as error:
        return _response(error)
    except web.HTTPMethodNotAllowed as error:
        response = _response(MethodNotAllowed(f"{request.path} can only be read: use GET."))
        response.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
        return response
    except web.HTTPNotFound:
        return _response(NotFound(f"There is nothing at {request.path}; there is {PATHS}.", code="not_found"))


def host_middleware(rule: HostRule) -> Middleware:
    """Refuse foreign `Host` and `Origin` (400 invalid_host)."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        sockname = request.transport.get_extra_info("sockname") if request.transport is not None else None
        refusal = rule.refusal(
            request.headers.getall("Host", []),
            request.headers.getall("Origin", []),
            str(sockname[0]) if sockname else None,
        )
        if refusal is not None:
            raise BadRequest(refusal, code="invalid_host")
        return await handler(request)

    return check


def _response(error: IopError) -> web.Response:
    return web.Response(status=error.status, body=errors.envelope(error), headers=dict(errors.headers(error)))
