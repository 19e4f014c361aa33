"""The Control Plane's HTTP API against a stand-in Edge."""

import asyncio
import json
import re
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from iop.admin.aio import AsyncAdminReader
from iop.control.app import build_app
from iop.control.views import Clock, EdgeView, Views
from iop.transport.hosts import HostRule

STATUS = {"schema": 1, "edge": {"id": "e1"}, "totals": {"capacity": 10}}


class FakeEdge:
    """The admin port of an Edge: a status, and an event stream that stays open until `finish`."""

    def __init__(self):
        self.finish = asyncio.Event()
        self.asked = []
        app = web.Application()
        app.router.add_get("/status", self._status)
        app.router.add_get("/events", self._events)
        self.server = TestServer(app)

    async def _status(self, request):
        return web.json_response(STATUS)

    async def _events(self, request):
        self.asked.append(request.headers.get("Last-Event-ID"))
        if self.asked[-1] == "bad":
            return web.json_response({"error": {"message": "bad id", "code": "invalid_body"}}, status=400)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'id: 5\nevent: granted\ndata: {"seq":5}\n\n')
        await self.finish.wait()
        return response


@asynccontextmanager
async def control(accepts=lambda _token: False):
    """Run a Control Plane beside a stand-in Edge; yield the client and the Edge."""
    loop = asyncio.get_running_loop()
    edge = FakeEdge()
    await edge.server.start_server()
    reader = AsyncAdminReader(str(edge.server.make_url("")), timeout=20)
    views = Views([EdgeView("e1", reader, Clock(loop.time, loop.time))])
    client = TestClient(TestServer(build_app(views, HostRule(), accepts)))
    await client.start_server()
    try:
        yield client, edge
    finally:
        edge.finish.set()
        await client.close()
        await views.close()
        await edge.server.close()


async def test_status_and_edges_tell_what_the_edge_says():
    """The Edge's status passes with `control` added, and the list shows it as reachable."""
    async with control() as (client, _):
        body = await (await client.get("/edges/e1/status")).json()
        assert body["totals"] == {"capacity": 10}
        assert body["control"]["stale"] is False
        edges = (await (await client.get("/edges")).json())["edges"]
        assert [(edge["id"], edge["reachable"]) for edge in edges] == [("e1", True)]


async def test_a_dead_edge_leaves_the_last_status():
    """After the Edge has gone the status is marked stale and the Edge unreachable."""
    async with control() as (client, edge):
        await client.get("/edges/e1/status")
        await edge.server.close()
        response = await client.get("/edges/e1/status")
        assert response.status == 200
        assert (await response.json())["control"]["stale"] is True
        assert (await (await client.get("/edges")).json())["edges"][0]["reachable"] is False


async def test_an_edge_never_seen_is_a_502():
    """Without any status the error says so in JSON, for status and events."""
    async with control() as (client, edge):
        await edge.server.close()
        for path in ("/edges/e1/status", "/edges/e1/events"):
            response = await client.get(path)
            assert response.status == 502
            assert (await response.json())["error"]["code"] == "upstream_unreachable"


async def test_events_are_relayed_with_the_id():
    """Bytes pass as they are, and the reader's last id reaches the Edge."""
    async with control() as (client, edge):
        response = await client.get("/edges/e1/events", headers={"Last-Event-ID": "4"})
        assert response.content_type == "text/event-stream"
        edge.finish.set()
        assert await response.read() == b'id: 5\nevent: granted\ndata: {"seq":5}\n\n'
        assert edge.asked == ["4"]
        refused = await client.get("/edges/e1/events?last_event_id=bad")
        assert refused.status == 400
        assert (await refused.json())["error"]["message"] == "bad id"


async def test_many_readers_of_events_do_not_keep_the_status_away():
    """Each page that is looked at holds a stream; the next status needs a connection of its own, and has it."""
    async with control() as (_, edge), AsyncExitStack() as streams:
        reader = AsyncAdminReader(str(edge.server.make_url("")), timeout=20)
        streams.push_async_callback(reader.close)
        for _ in range(110):
            await streams.enter_async_context(reader.events(None))
        assert await reader.status() == STATUS


async def test_shutdown_ends_relayed_streams():
    """A stopping Control Plane does not wait for the readers of events."""
    async with control() as (client, _):
        response = await client.get("/edges/e1/events")
        assert await response.content.readany()
        async with asyncio.timeout(20):
            await client.server.close()


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("GET", "/edges/e9/status", {}, 404, "not_found"),
        ("GET", "/edges/e9/events", {}, 404, "not_found"),
        ("GET", "/nothing", {}, 404, "not_found"),
        ("POST", "/edges", {}, 405, "method_not_allowed"),
        ("GET", "/edges", {"Host": "evil.example"}, 400, "invalid_host"),
        ("GET", "/edges", {"Origin": "https://evil.example"}, 400, "invalid_host"),
    ],
)
async def test_refusals_are_json_errors(method, path, headers, status, code):
    """Unknown Edges and paths, other methods and foreign names get the one error shape."""
    async with control() as (client, _):
        response = await client.request(method, path, headers=headers)
        assert response.status == status
        assert json.loads(await response.read())["error"]["code"] == code


async def test_health_answers():
    """The health path answers."""
    async with control() as (client, _):
        assert (await client.get("/healthz")).status == 200


async def test_the_root_is_the_page_and_names_files_that_are_there():
    """`GET /` is HTML; each file it names is served with its type, and an unknown one is a JSON 404."""
    async with control() as (client, _):
        index = await client.get("/")
        assert (index.status, index.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        named = re.findall(r'(?:src|href)="(page/[^"]+)"', await index.text())
        types = {name.rpartition(".")[2]: (await client.get(f"/{name}")).headers["Content-Type"] for name in named}
        assert types == {
            "svg": "image/svg+xml; charset=utf-8",
            "css": "text/css; charset=utf-8",
            "js": "text/javascript; charset=utf-8",
        }
        for name in ("nothing.js", "..%2Fapp.py", "%2e%2e%2fapp.py"):
            missing = await client.get(URL(f"/page/{name}", encoded=True))
            assert (missing.status, (await missing.json())["error"]["code"]) == (404, "not_found")


async def test_a_browser_that_has_a_file_is_told_that_it_is_the_same():
    """Files are asked for each time and carry an ETag; with it the answer is a 304 without a body."""
    async with control() as (client, _):
        first = await client.get("/page/page.js")
        assert first.headers["Cache-Control"] == "no-cache"
        again = await client.get("/page/page.js", headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status, await again.read()) == (304, b"")
        other = await client.get("/page/page.css", headers={"If-None-Match": first.headers["ETag"]})
        assert other.status == 200


async def test_every_answer_carries_the_guards():
    """Page, JSON, streams and errors alike: nothing foreign is loaded or framed, and no type is guessed."""
    async with control() as (client, edge):
        edge.finish.set()
        for path in ("/", "/page/page.css", "/edges", "/edges/e1/status", "/edges/e1/events", "/nothing"):
            headers = (await client.get(path)).headers
            policy = [part.strip() for part in headers["Content-Security-Policy"].split(";")]
            assert {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"} <= set(policy)
            assert {"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} <= set(policy)
            assert not any("unsafe" in part or "http" in part for part in policy)
            assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
            assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize(
    ("method", "path", "alone", "with_token"),
    [
        ("GET", "/", 200, 200),
        ("GET", "/page/page.js", 200, 200),
        ("GET", "/page/nothing", 404, 404),
        ("GET", "/edges", 401, 200),
        ("GET", "/edges/e1/status", 401, 200),
        ("GET", "/edges/e1/events", 401, 200),
        ("GET", "/healthz", 401, 200),
        ("GET", "/nothing", 401, 404),
        ("GET", "/page/a/b", 401, 404),
        ("POST", "/", 401, 405),
    ],
)
async def test_beyond_loopback_only_the_page_itself_needs_no_token(monkeypatch, method, path, alone, with_token):
    """The page's files hold no secrets; what they ask for needs the token, and so does everything else."""
    monkeypatch.setattr("iop.transport.callers.is_loopback", lambda _host: False)
    async with control(lambda token: token == "right") as (client, edge):
        edge.finish.set()
        assert (await client.request(method, path)).status == alone
        wrong = await client.request(method, path, headers={"Authorization": "Bearer wrong"})
        assert wrong.status == alone
        right = await client.request(method, path, headers={"Authorization": "Bearer right"})
        assert right.status == with_token


async def test_the_host_rule_holds_for_the_page_too():
    """A name that is not ours gets no page: a rebound name would else be its origin."""
    async with control() as (client, _):
        for path in ("/", "/page/page.js"):
            assert (await client.get(path, headers={"Host": "evil.example"})).status == 400
