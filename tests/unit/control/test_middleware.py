"""The Control Plane's outer skin."""

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from iop.control.middleware import error_middleware, host_middleware
from iop.domain.errors import UpstreamError
from iop.transport.hosts import HostRule


@pytest.fixture
async def client():
    """Serve one good path and one that fails with an error of the tree."""

    async def good(request):
        return web.Response(text="ok")

    async def bad(request):
        raise UpstreamError("gone")

    app = web.Application(middlewares=[error_middleware, host_middleware(HostRule(["control.lan"]))])
    app.router.add_get("/good", good)
    app.router.add_get("/bad", bad)
    client = TestClient(TestServer(app))
    await client.start_server()
    yield client
    await client.close()


async def test_a_good_answer_passes_untouched(client):
    """Loopback and configured names get the answer."""
    for headers in ({}, {"Host": "control.lan:18001"}, {"Origin": "http://localhost:18001"}):
        assert await (await client.get("/good", headers=headers)).text() == "ok"


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("GET", "/bad", {}, 502, "upstream_unreachable"),
        ("GET", "/none", {}, 404, "not_found"),
        ("POST", "/good", {}, 405, "method_not_allowed"),
        ("GET", "/good", {"Host": "evil.example"}, 400, "invalid_host"),
    ],
)
async def test_every_refusal_has_the_one_shape(client, method, path, headers, status, code):
    """Errors of the tree, unknown paths, methods and names become the same JSON object."""
    response = await client.request(method, path, headers=headers)
    error = json.loads(await response.read())["error"]
    assert (response.status, error["code"]) == (status, code)
    assert set(error) == {"message", "type", "param", "code"}
    assert response.content_type == "application/json"
    assert (response.headers.get("Allow") is not None) == (status == 405)


async def test_every_answer_has_a_request_id(client):
    """A client's own id is kept, good answer or error; without one there is a new one each time."""
    for path in ("/good", "/none"):
        assert (await client.get(path, headers={"x-request-id": "mine"})).headers["x-request-id"] == "mine"
    made = {(await client.get("/good")).headers["x-request-id"] for _ in range(2)}
    assert len(made) == 2
