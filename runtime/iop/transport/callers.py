"""Who calls an HTTP port: from this machine or from beyond it, and with which token."""

import hmac
import ipaddress
from collections.abc import Callable, Container

from aiohttp import web
from aiohttp.typedefs import Middleware

from iop.domain.errors import BadRequest, Unauthorized
from iop.transport.http_border import Handler


def is_loopback(host: str) -> bool:
    """True when `host` is a loopback address (IPv4 ones mapped into IPv6 included)."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def bearer_token(request: web.Request) -> str | None:
    """Return the bearer token, None when there is none. Raises BadRequest when `Authorization` comes twice.

    The scheme is case-insensitive and may be followed by several spaces; the token itself is exact.
    """
    values = request.headers.getall("Authorization", [])
    if len(values) > 1:
        raise BadRequest("Send one Authorization header, not several.")
    if not values:
        return None
    scheme, _, token = values[0].strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def same_token(given: str, wanted: str | None) -> bool:
    """Compare in constant time; nothing is the same as no token."""
    # bytes, so that a non-ASCII guess is compared and not an exception; always compared, so that timing tells nothing
    same = hmac.compare_digest(given.encode("utf-8", "surrogateescape"), (wanted or "").encode())
    return bool(wanted) and same


def remote_middleware(accepts: Callable[[str], bool], public: Container[str] = ()) -> Middleware:
    """Refuse callers from beyond loopback (401) unless `accepts` knows their token; it compares in constant time.

    What matched a route of `public` (as the router writes it, `/page/{file}`) passes without one.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource  # None: nothing matched
        if resource is not None and resource.canonical in public:
            return await handler(request)
        if not is_loopback(request.remote or "") and not accepts(bearer_token(request) or ""):
            raise Unauthorized("From another machine this needs the token as 'Authorization: Bearer …'.")
        return await handler(request)

    return check
