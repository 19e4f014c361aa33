"""The Control Plane's HTTP API against a stand-in Edge."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

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
async def control():
    """Run a Control Plane beside a stand-in Edge; yield the client and the Edge."""
    loop = asyncio.get_running_loop()
    edge = FakeEdge()
    await edge.server.start_server()
    reader = AsyncAdminReader(str(edge.server.make_url("")), timeout=20)
    views = Views([EdgeView("e1", reader, Clock(loop.time, loop.time))])
    client = TestClient(TestServer(build_app(views, HostRule())))
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


async def test_index_and_health_answer():
    """The root says what is here; the health path answers."""
    async with control() as (client, _):
        assert (await (await client.get("/")).json())["edges"] == ["e1"]
        assert (await client.get("/healthz")).status == 200
