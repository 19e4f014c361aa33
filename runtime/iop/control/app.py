"""The Control Plane's HTTP API: read-only, over the views; and the page that shows them to people."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

import msgspec
from aiohttp import web

from iop.admin.wire import AdminRefused, AdminUnreachable
from iop.control.static import INDEX, PUBLIC, PageFile, answer, guard, read_page
from iop.control.views import EdgeView, Views
from iop.domain.errors import BadRequest, NotFound, UpstreamError
from iop.transport.callers import remote_middleware
from iop.transport.hosts import HostRule
from iop.transport.http_border import error_middleware, host_middleware, request_id

VIEWS: web.AppKey[Views] = web.AppKey("views", Views)
PAGE: web.AppKey[Mapping[str, PageFile]] = web.AppKey("page", Mapping)
RELAYS = web.AppKey("relays", set[asyncio.Task[object]])
#: seconds a reader of events may stall one write before it is cut off
WRITE_TIMEOUT_S = 30.0


def build_app(views: Views, hosts: HostRule, accepts: Callable[[str], bool] = lambda _token: False) -> web.Application:
    """Build the application. Its shutdown ends the event streams it relays.

    `accepts` knows the tokens of callers from beyond loopback; those on loopback need none, nor does the page itself.
    """
    guards = [host_middleware(hosts), remote_middleware(accepts, public=PUBLIC)]
    app = web.Application(middlewares=[error_middleware, *guards])
    app[VIEWS] = views
    app[PAGE] = read_page()
    app[RELAYS] = set()
    app.router.add_get("/", _index)
    app.router.add_get("/page/{file}", _page)
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/edges", _edges)
    app.router.add_get("/edges/{id}/status", _status)
    app.router.add_get("/edges/{id}/events", _events)
    app.on_response_prepare.append(guard)
    app.on_shutdown.append(_end_relays)
    return app


async def _index(request: web.Request) -> web.Response:
    return answer(request, request.app[PAGE][INDEX])


async def _page(request: web.Request) -> web.Response:
    name = request.match_info["file"]
    file = request.app[PAGE].get(name)
    if file is None:
        raise NotFound(f"The page has no file '{name[:100]}'; GET / loads those it has.", code="not_found")
    return answer(request, file)


async def _healthz(_request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _edges(request: web.Request) -> web.Response:
    return _json({"edges": [view.summary() for view in request.app[VIEWS].all()]})


async def _status(request: web.Request) -> web.Response:
    return _json(await _view(request).status())


async def _events(request: web.Request) -> web.StreamResponse:
    view = _view(request)
    after = request.headers.get("Last-Event-ID") or request.query.get("last_event_id") or None
    try:
        async with view.reader.events(after) as chunks:
            return await _relay(request, chunks)
    except AdminUnreachable as error:
        raise UpstreamError(f"Edge {view.id}: {error}.") from error
    except AdminRefused as error:
        raise BadRequest(error.message, code=error.code) from error


async def _relay(request: web.Request, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "x-request-id": request_id(request)}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    task = asyncio.current_task()
    assert task is not None
    request.app[RELAYS].add(task)
    try:
        # a stream that breaks simply ends: the reader comes back with its last id and misses nothing
        with contextlib.suppress(AdminUnreachable, ConnectionError, TimeoutError):
            async for chunk in chunks:
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await response.write(chunk)
    finally:
        request.app[RELAYS].discard(task)
    return response


async def _end_relays(app: web.Application) -> None:
    relays = app[RELAYS]
    for task in tuple(relays):
        task.cancel()


def _view(request: web.Request) -> EdgeView:
    return request.app[VIEWS].get(request.match_info["id"])


def _json(body: object) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body), content_type="application/json", headers={"Cache-Control": "no-store"}
    )
