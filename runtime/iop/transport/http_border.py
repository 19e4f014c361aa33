"""The border of every HTTP port: request ids, errors as JSON, who may speak (Host, Origin).

The only place that turns an IopError, or a fault nobody expected, into an answer, and that keeps such a fault of one
request from another one.
"""

import functools
import logging
import os
from collections.abc import Awaitable, Callable

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.typedefs import Middleware

from iop.domain.errors import BadRequest, BodyTooLarge, IopError, MethodNotAllowed, NotFound
from iop.openai import errors, headers
from iop.transport.hosts import HostRule

_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

REQUEST_ID = web.RequestKey("iop_request_id", str)
#: code of the error that was told as the answer
TOLD_ERROR = web.RequestKey("iop_told_error", str)


def request_id(request: web.BaseRequest) -> str:
    """The id of this request: the client's own `x-request-id` if it is one, else a new one."""
    try:
        return request[REQUEST_ID]
    except KeyError:
        own = request.headers.get("x-request-id", "")
        made = request[REQUEST_ID] = own if headers.valid_request_id(own) else f"req_{os.urandom(16).hex()}"
        return made


def error_response(error: IopError, request: web.Request) -> web.Response:
    """Render an error of iop's own: OpenAI's error object, its headers and the request id."""
    request[TOLD_ERROR] = error.code
    response = web.Response(
        status=error.status,
        body=errors.envelope(error),
        headers={**dict(errors.headers(error)), "x-request-id": request_id(request)},
    )
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = error.allow
    if not request.content.at_eof():
        response.force_close()  # the rest of a refused body is not worth reading
    return response


def layered(handler: Handler, *middlewares: Middleware) -> Handler:
    """Return a handler that passes each request through the middlewares, the first one outermost."""
    for middleware in reversed(middlewares):
        handler = functools.partial(middleware, handler=handler)
    return handler


@web.middleware
async def error_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure becomes a JSON answer; what was not foreseen is logged and told as a plain 500."""
    try:
        response = await handler(request)
    except IopError as error:
        return error_response(error, request)
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        text = f"{request.method} is not allowed for {request.path}; allowed: {allowed}."
        return error_response(MethodNotAllowed(text, allow=allowed), request)
    except web.HTTPNotFound:
        there = ", ".join(_routes(request.app))
        text = f"There is nothing at {request.path[:200]}; there is {there}."
        return error_response(NotFound(text, code="not_found"), request)
    except web.HTTPRequestEntityTooLarge:
        return error_response(BodyTooLarge("The request body is too large."), request)
    except web.HTTPException as error:
        return error_response(BadRequest(error.reason or "bad request"), request)
    except ConnectionError:
        raise
    except Exception:  # noqa: BLE001  (the border: what nobody foresaw is told as a plain 500)
        _log.exception("unhandled error while answering %s %s", request.method[:20], request.path[:200])
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun; it can only be cut") from None
        return error_response(IopError("An internal error occurred; the log has the details."), request)
    if not response.prepared:
        response.headers.setdefault("x-request-id", request_id(request))
    return response


def kept_apart(request_id: str, work: Callable[[], object]) -> bool:
    """Do `work` of a request while another one is served. A fault of it is logged and told as False, to harm nobody."""
    try:
        work()
    except Exception:  # noqa: BLE001  (the border between two requests)
        _log.exception("unhandled error while going on with request %s", request_id)
        return False
    return True


def _routes(app: web.Application) -> list[str]:
    """Return what the app answers, as `GET /path`."""
    found = {f"{route.method} {route.resource.canonical}": None for route in app.router.routes() if route.resource}
    return [name for name in found if not name.startswith("HEAD ")]


def host_middleware(rule: HostRule) -> Middleware:
    """Refuse foreign `Host` and `Origin` (400 invalid_host): localhost is not a wall against web pages."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not HttpVersion10 <= request.version <= HttpVersion11:
            raise BadRequest("This server speaks HTTP/1.1 and HTTP/1.0.")
        sockname = request.protocol.sockname
        local = str(sockname[0]) if sockname else None
        refusal = rule.refusal(request.headers.getall("Host", []), request.headers.getall("Origin", []), local)
        if refusal is not None:
            raise BadRequest(refusal, code="invalid_host")
        return await handler(request)

    return check
