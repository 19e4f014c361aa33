"""The admin port over a recording context."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp.test_utils import TestClient, TestServer

from iop.domain.effects import Effect, EffectType, Load
from iop.edge.admin_routes import DrainAsk, build_admin_app, unknown_node
from iop.edge.feed import Feed
from iop.edge.refresh import RefreshAsk, RefreshReply
from iop.edge.tallies import Tallies
from iop.transport.hosts import HostRule

AUTH = {"Authorization": "Bearer s3cret"}
REFRESH = {"mode": "dry-run", "config": "edge: {}", "source": "/x/edge.yaml"}
DRAIN = {"lease_s": 60, "by": "me", "reason": "update"}


class Context:
    """An Edge that records what it is asked."""

    def __init__(self, token="s3cret"):
        self.feed = Feed(lambda: 0.0)
        self.token = token
        self.shutting_down = False
        self.tallies = Tallies(lambda: 0.0)
        self.asked = []

    def status(self):
        return {"schema": 1}

    async def refresh(self, ask):
        self.asked.append(ask)
        return RefreshReply(422, {"findings": [{"code": "x"}]})

    def drain(self, node_id, ask):
        if node_id == "n9":
            raise unknown_node(node_id)
        self.asked.append((node_id, ask))

    def undrain(self, node_id):
        self.asked.append(node_id)


@asynccontextmanager
async def admin(context):
    """Serve the admin port of `context`."""
    client = TestClient(TestServer(build_admin_app(context, HostRule())))
    await client.start_server()
    try:
        yield client
    finally:
        context.feed.close()
        await client.close()


async def code_of(response):
    """Read the code of an error answer."""
    return json.loads(await response.read())["error"]["code"]


async def test_reading_needs_nothing():
    """Status and health answer without a token."""
    async with admin(Context(token=None)) as client:
        assert await (await client.get("/status")).json() == {"schema": 1}
        assert (await client.get("/healthz")).status == 200
        assert (await client.get("/readyz")).status == 200


async def test_a_stopping_edge_is_not_ready():
    """While shutting down the Edge is healthy but not ready."""
    context = Context()
    context.shutting_down = True
    async with admin(context) as client:
        response = await client.get("/readyz")
        assert (response.status, await code_of(response)) == (503, "shutting_down")
        assert int(response.headers["Retry-After"]) >= 1
        assert (await client.get("/healthz")).status == 200


async def test_events_stream_and_resume():
    """The stream is server-sent events, starts after the id given by header or query, and ends with the feed."""
    context = Context()
    context.feed.publish(
        tuple(Effect(EffectType.GRANTED, Load(1, 1, 0), request_id=f"r{number}") for number in range(3))
    )
    async with admin(context) as client:
        by_header = await client.get("/events", headers={"Last-Event-ID": "1"})
        by_query = await client.get("/events?last_event_id=2")
        from_now = await client.get("/events")
        context.feed.close()
        async with asyncio.timeout(20):
            texts = [await response.text() for response in (by_header, by_query, from_now)]
        assert by_header.content_type == "text/event-stream"
        assert [text.count("event: granted") for text in texts] == [2, 1, 0]
        assert texts[0].index("id: 2\n") < texts[0].index("id: 3\n")


@pytest.mark.parametrize("given", ["abc", "-1", "1.5", "9" * 16, "٣"])
async def test_a_strange_event_id_is_refused(given):
    """Only a number can be the id of an event."""
    async with admin(Context()) as client:
        response = await client.get("/events", params={"last_event_id": given})
        assert (response.status, await code_of(response)) == (400, "invalid_body")


async def test_refresh_passes_the_question_and_the_answer():
    """The body becomes the question; status and JSON of the answer are passed on."""
    context = Context()
    async with admin(context) as client:
        body = REFRESH | {"expect_generation": 3, "ack_timeout_s": 2}
        response = await client.post("/config/refresh", json=body, headers=AUTH)
        assert response.status == 422
        assert await response.json() == {"findings": [{"code": "x"}]}
    assert context.asked == [RefreshAsk("dry-run", "edge: {}", "/x/edge.yaml", 3, 2.0)]


async def test_drain_and_undrain_reach_the_node():
    """A lease is taken over with its author and reason, and is ended by DELETE without a body."""
    context = Context()
    async with admin(context) as client:
        assert (await client.put("/nodes/n1/drain", json=DRAIN, headers=AUTH)).status == 200
        assert (await client.delete("/nodes/n1/drain", headers=AUTH)).status == 200
        response = await client.put("/nodes/n9/drain", json=DRAIN, headers=AUTH)
        assert (response.status, await code_of(response)) == (404, "not_found")
    assert context.asked == [("n1", DrainAsk(60.0, "me", "update")), "n1"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/config/refresh", REFRESH),
        ("PUT", "/nodes/n1/drain", DRAIN),
        ("DELETE", "/nodes/n1/drain", None),
    ],
)
@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}, {"Authorization": "Bearer s3crét"}],
)
async def test_every_state_change_needs_the_token(method, path, body, headers):
    """Without the right bearer token nothing is asked of the Edge, dry-run included."""
    context = Context()
    async with admin(context) as client:
        response = await client.request(method, path, json=body, headers=headers)
        assert (response.status, await code_of(response)) == (401, "invalid_api_key")
    assert context.asked == []


@pytest.mark.parametrize("token", [None, ""])
async def test_without_a_configured_token_nothing_passes(token):
    """An Edge without an admin token refuses state changes instead of allowing all."""
    async with admin(Context(token=token)) as client:
        response = await client.delete("/nodes/n1/drain", headers={"Authorization": "Bearer "})
        assert response.status == 401


@pytest.mark.parametrize(
    ("data", "content_type", "status", "code"),
    [
        (json.dumps(REFRESH), "text/plain", 415, "unsupported_encoding"),
        ("{", "application/json", 400, "invalid_json"),
        ("[" * 5000, "application/json", 400, "invalid_json"),
        ("[]", "application/json", 400, "invalid_body"),
        (json.dumps(REFRESH | {"mode": "force"}), "application/json", 400, "invalid_body"),
        (json.dumps(REFRESH | {"config": None}), "application/json", 400, "invalid_body"),
        (json.dumps(REFRESH | {"source": 1}), "application/json", 400, "invalid_body"),
        (json.dumps(REFRESH | {"expect_generation": True}), "application/json", 400, "invalid_body"),
        (json.dumps(REFRESH | {"ack_timeout_s": -1}), "application/json", 400, "invalid_body"),
    ],
)
async def test_a_bad_refresh_says_what_to_change(data, content_type, status, code):
    """Each malformed body is a 4xx in the one error shape, and nothing is asked of the Edge."""
    context = Context()
    async with admin(context) as client:
        response = await client.post("/config/refresh", data=data, headers=AUTH | {"Content-Type": content_type})
        assert (response.status, await code_of(response)) == (status, code)
    assert context.asked == []


@pytest.mark.parametrize(
    "wrong",
    [{"lease_s": lease} for lease in (0, -1, True, "60", None, float("inf"), 10**400, 1e308)]
    + [{"by": 5}, {"by": "b" * 1001}, {"reason": "r" * 1001}],
)
async def test_a_lease_must_be_a_number_above_zero(wrong):
    """A drain without an end, or with none that makes sense, is refused; so is a reason too long for a status."""
    async with admin(Context()) as client:
        body = json.dumps(DRAIN | wrong)
        response = await client.put("/nodes/n1/drain", data=body, headers=AUTH | {"Content-Type": "application/json"})
        assert response.status == 400


async def test_foreign_names_are_refused():
    """Host and Origin are checked before anything else."""
    async with admin(Context()) as client:
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            response = await client.post("/config/refresh", json=REFRESH, headers=AUTH | headers)
            assert (response.status, await code_of(response)) == (400, "invalid_host")


async def test_unknown_paths_and_methods_are_json_errors():
    """The admin port never answers with a text page."""
    async with admin(Context()) as client:
        assert await code_of(await client.get("/nothing")) == "not_found"
        response = await client.get("/config/refresh")
        assert (response.status, await code_of(response)) == (405, "method_not_allowed")
