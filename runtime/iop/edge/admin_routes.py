"""The admin port: status, events, refresh and drain. It reads snapshots and asks; it holds no state of its own.

GETs from loopback need nothing; every state change, and everything from beyond loopback, needs the admin token, and
a body must be JSON.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from iop.domain.errors import BadRequest, IopError, NotFound, Unauthorized, Unavailable, UnsupportedEncoding
from iop.edge.description import description
from iop.edge.feed import KEEPALIVE_S, Feed
from iop.edge.journal import journal
from iop.edge.refresh import ACK_TIMEOUT_S, RefreshAsk, RefreshReply
from iop.edge.tallies import Tallies
from iop.transport.callers import bearer_token, remote_middleware, same_token
from iop.transport.hosts import HostRule
from iop.transport.http_border import error_middleware, host_middleware, request_id

#: bytes; far above any config a person writes
MAX_ADMIN_BODY = 8 * 1024 * 1024
#: seconds; longer than any node that is not lost needs to take a config over
MAX_ACK_TIMEOUT_S = 3600.0
#: seconds; no drain lasts longer than 30 years
MAX_LEASE_S = 1e9
#: characters of who drains a node and why: every status carries them
MAX_WORDS = 1000
#: seconds a reader of events may stall one write before it is cut off
EVENT_WRITE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class DrainAsk:
    """A drain lease: how long it lives (seconds), who asked and why."""

    lease_s: float
    by: str | None
    reason: str | None


class AdminContext(Protocol):
    """What the admin port needs of the Edge."""

    @property
    def feed(self) -> Feed:
        """The event log."""

    @property
    def token(self) -> str | None:
        """The admin token; None refuses every state change."""

    @property
    def shutting_down(self) -> bool:
        """True from SIGTERM on."""

    @property
    def tallies(self) -> Tallies:
        """What is counted of requests."""

    @property
    def metrics(self) -> Handler:
        """The handler of `GET /metrics`."""

    def status(self) -> Mapping[str, Any]:
        """Return the status JSON."""

    async def refresh(self, ask: RefreshAsk) -> RefreshReply:
        """Plan or apply a candidate config."""

    def drain(self, node_id: str, ask: DrainAsk) -> None:
        """Start or renew the drain of a node. Raises NotFound for an unknown node."""

    def undrain(self, node_id: str) -> None:
        """End the drain of a node; no drain is no error. Raises NotFound for an unknown node."""


CONTEXT: web.AppKey[AdminContext] = web.AppKey("admin_context", AdminContext)
DESCRIPTION: web.AppKey[bytes] = web.AppKey("description", bytes)


def build_admin_app(context: AdminContext, hosts: HostRule) -> web.Application:
    """Build the admin port's application; further routes may be added to it before it starts."""
    guards = [host_middleware(hosts), remote_middleware(lambda token: same_token(token, context.token))]
    app = web.Application(
        middlewares=[journal(lambda: context.tallies), error_middleware, *guards], client_max_size=MAX_ADMIN_BODY
    )
    app[CONTEXT] = context
    app[DESCRIPTION] = description("admin")
    app.router.add_get("/status", _status)
    app.router.add_get("/events", _events)
    app.router.add_get("/metrics", _metrics)
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/readyz", _readyz)
    app.router.add_get("/openapi.json", _description)
    app.router.add_post("/config/refresh", _refresh)
    app.router.add_put("/nodes/{id}/drain", _drain)
    app.router.add_delete("/nodes/{id}/drain", _undrain)
    return app


def require_admin(request: web.Request, token: str | None) -> None:
    """Let a state change pass only with the admin token (constant time).

    Raises Unauthorized, or BadRequest when two `Authorization` headers came.
    """
    if not same_token(bearer_token(request) or "", token):
        raise Unauthorized(
            "This changes the Edge and needs the admin token as 'Authorization: Bearer …' "
            "(auth.admin_token_file, else admin.token beside the config)."
        )


def require_json(request: web.Request) -> None:
    """Let a body pass only as JSON: no form of a web page can send that. Raises UnsupportedEncoding."""
    if request.content_type != "application/json":
        raise UnsupportedEncoding("Send the body as 'Content-Type: application/json'.")


async def read_object(request: web.Request) -> dict[str, Any]:
    """Read a JSON object. Raises UnsupportedEncoding for another content type, BadRequest for anything else."""
    require_json(request)
    try:
        body = msgspec.json.decode(await request.read())
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequest(f"The body is no valid JSON: {error}", code="invalid_json") from error
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.")
    return body


def _context(request: web.Request) -> AdminContext:
    return request.app[CONTEXT]


async def _status(request: web.Request) -> web.Response:
    body = msgspec.json.encode(_context(request).status())
    return web.Response(body=body, content_type="application/json", headers={"Cache-Control": "no-store"})


async def _metrics(request: web.Request) -> web.StreamResponse:
    return await _context(request).metrics(request)


async def _healthz(_request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _readyz(request: web.Request) -> web.Response:
    if _context(request).shutting_down:
        raise Unavailable("The Edge is shutting down.", code="shutting_down", retry_after=1)
    return web.json_response({"status": "ready"})


async def _description(request: web.Request) -> web.Response:
    return web.Response(body=request.app[DESCRIPTION], content_type="application/json")


async def _events(request: web.Request) -> web.StreamResponse:
    after = _last_event_id(request)
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "x-request-id": request_id(request)}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    async for chunk in _context(request).feed.stream(after, keepalive=KEEPALIVE_S):
        if not await _write(response, chunk):
            break
    return response


async def _write(response: web.StreamResponse, chunk: bytes) -> bool:
    """Write `chunk`; False when the reader left or read nothing for too long."""
    try:
        async with asyncio.timeout(EVENT_WRITE_TIMEOUT_S):
            await response.write(chunk)
    except (TimeoutError, ConnectionError):
        return False
    return True


def _last_event_id(request: web.Request) -> int | None:
    given = request.headers.get("Last-Event-ID") or request.query.get("last_event_id")
    if given is None or given == "":
        return None
    if not given.isascii() or not given.isdigit() or len(given) > 15:
        raise BadRequest("Last-Event-ID must be the number of an event, such as the id of the last one you got.")
    return int(given)


async def _refresh(request: web.Request) -> web.Response:
    context = _context(request)
    require_admin(request, context.token)
    reply = await context.refresh(_refresh_ask(await read_object(request)))
    return web.Response(status=reply.status, body=msgspec.json.encode(reply.body), content_type="application/json")


def _refresh_ask(body: dict[str, Any]) -> RefreshAsk:
    if body.get("mode") not in ("dry-run", "apply"):
        raise BadRequest("'mode' must be 'dry-run' or 'apply'.", param="mode")
    for key in ("config", "source"):
        if not isinstance(body.get(key), str):
            raise BadRequest(f"'{key}' must be a string: {_REFRESH_KEYS[key]}.", param=key)
    expect = body.get("expect_generation")
    if expect is not None and (isinstance(expect, bool) or not isinstance(expect, int)):
        raise BadRequest("'expect_generation' must be an integer.", param="expect_generation")
    patience = body.get("ack_timeout_s", ACK_TIMEOUT_S)
    if isinstance(patience, bool) or not isinstance(patience, int | float) or not 0 <= patience <= MAX_ACK_TIMEOUT_S:
        raise BadRequest(f"'ack_timeout_s' must be 0 to {MAX_ACK_TIMEOUT_S:.0f} seconds.", param="ack_timeout_s")
    return RefreshAsk(body["mode"], body["config"], body["source"], expect, float(patience))


_REFRESH_KEYS = {"config": "the YAML text of edge.yaml", "source": "the absolute path the text was read from"}


async def _drain(request: web.Request) -> web.Response:
    context = _context(request)
    require_admin(request, context.token)
    ask = _drain_ask(await read_object(request))
    node_id = request.match_info["id"]
    context.drain(node_id, ask)
    return web.json_response(
        {"id": node_id, "draining": True, "lease_s": ask.lease_s, "by": ask.by, "reason": ask.reason}
    )


def _drain_ask(body: dict[str, Any]) -> DrainAsk:
    lease = body.get("lease_s")
    if isinstance(lease, bool) or not isinstance(lease, int | float) or not 0 < lease <= MAX_LEASE_S:
        raise BadRequest(f"'lease_s' must be a number of seconds above 0, at most {MAX_LEASE_S:.0f}.", param="lease_s")
    for key in ("by", "reason"):
        if not isinstance(body.get(key), str | None) or len(body.get(key) or "") > MAX_WORDS:
            raise BadRequest(f"'{key}' must be a string of at most {MAX_WORDS} characters.", param=key)
    return DrainAsk(float(lease), body.get("by"), body.get("reason"))


async def _undrain(request: web.Request) -> web.Response:
    context = _context(request)
    require_admin(request, context.token)
    node_id = request.match_info["id"]
    context.undrain(node_id)
    return web.json_response({"id": node_id, "draining": False})


def unknown_node(node_id: str) -> IopError:
    """Make the 404 for a node that is not in the config."""
    return NotFound(f"No node '{node_id}' in the config; GET /status lists them.", code="not_found")
