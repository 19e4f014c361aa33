"""The HTTP floor's outer skin: request ids, errors as JSON, who may speak (Host, Origin).

The only place in the Edge that turns an IopError, or a fault nobody expected, into an answer.
"""

import ipaddress
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from iop.domain.errors import BadRequest, IopError, MethodNotAllowed, NotFound
from iop.openai import errors, headers

_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

REQUEST_ID = web.RequestKey("iop_request_id", str)
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def request_id(request: web.Request) -> str:
    """The id of this request: the client's own `x-request-id` if it is one, else a new one."""
    known: str | None = request.get(REQUEST_ID)
    if known is None:
        own = request.headers.get("x-request-id", "")
        known = own if headers.valid_request_id(own) else f"req_{uuid.uuid4().hex}"
        request[REQUEST_ID] = known
    return known


def error_response(error: IopError, request: web.Request) -> web.Response:
    """Render an error of iop's own: OpenAI's error object, its headers and the request id."""
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
        return error_response(NotFound(f"There is nothing at {request.path}.", code="not_found"), request)
    except web.HTTPException as error:
        return error_response(BadRequest(error.reason or "bad request"), request)
    except ConnectionError:
        raise
    except Exception:  # noqa: BLE001  (the border: what nobody foresaw is told as a plain 500)
        _log.exception("unhandled error while answering %s %s", request.method, request.path)
        return error_response(IopError("An internal error occurred; the log has the details."), request)
    if not response.prepared:
        response.headers.setdefault("x-request-id", request_id(request))
    return response


class HostRule:
    """Which `Host` and `Origin` names may speak to a port: loopback names, the listen address, `http.allowed_hosts`."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = LOOPBACK_NAMES | {name.strip("[]").lower() for name in names}

    def allows(self, host: str, local_address: str | None = None) -> bool:
        """True when the `Host` header's value (port ignored) is one of ours.

        The address a connection came in on counts too: rebinding attacks work with names, not with address literals.
        """
        name = host_name(host)
        if name is None:
            return False
        if name in self._names or name == local_address:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def host_name(host: str) -> str | None:
    """Return the lower-case name of a `Host` value without its port and brackets, None if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        name, _ = parts.hostname, parts.port
    except ValueError:
        return None
    if not name or parts.username is not None or parts.path or parts.query:
        return None
    return name.lower().rstrip(".")


def host_middleware(rule: HostRule) -> Middleware:
    """Refuse foreign `Host` and `Origin` (400 invalid_host): localhost is not a wall against web pages."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        sockname = request.transport.get_extra_info("sockname") if request.transport is not None else None
        local = str(sockname[0]) if sockname else None
        hosts = request.headers.getall("Host", [])
        if len(hosts) > 1 or (not hosts and request.version >= (1, 1)):
            raise BadRequest("Send exactly one Host header.", code="invalid_host")
        if hosts and not rule.allows(hosts[0], local):
            raise _foreign("Host", hosts[0])
        for origin in request.headers.getall("Origin", []):
            if not rule.allows(origin.partition("://")[2], local):
                raise _foreign("Origin", origin)
        return await handler(request)

    return check


def _foreign(header: str, value: str) -> BadRequest:
    shown = value.encode("ascii", "replace").decode()[:100]
    return BadRequest(
        f"{header} {shown!r} is not a name of this server. Use its listen address or a loopback name, "
        "or add the name to http.allowed_hosts.",
        code="invalid_host",
    )
