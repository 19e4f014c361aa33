"""The typed clients of the admin API and of the Control Plane."""

import json

import httpx
import pytest

from iop.admin.client import AdminClient, AdminRefused, AdminUnreachable, ControlClient

PLAN = {
    "mode": "apply",
    "generation": 1,
    "new_generation": 2,
    "changes": [],
    "restart_required": [],
    "findings": [],
    "nodes": [{"id": "n1", "acknowledged": True}, {"id": "n2", "acknowledged": False}],
}
STREAM = b': iop events after=6\n\nid: 7\nevent: granted\ndata: {"seq": 7}\n\n'


class Server:
    """A stand-in server: answers every call alike and keeps what it was asked."""

    def __init__(self, status=200, **answer):
        self.status = status
        self.answer = answer
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        return httpx.Response(self.status, **self.answer)


def admin(server, token="secret"):
    """Make an admin client that talks to the stand-in."""
    return AdminClient("http://edge:1/", token=token, transport=httpx.MockTransport(server))


def test_status_is_read_with_the_token():
    """The token travels as a bearer token; the status comes back as it is."""
    server = Server(json={"schema": 1})
    with admin(server) as client:
        assert client.status() == {"schema": 1}
    assert str(server.requests[0].url) == "http://edge:1/status"
    assert server.requests[0].headers["authorization"] == "Bearer secret"


def test_without_a_token_no_header_is_sent():
    """GETs on loopback need nothing, so nothing is sent."""
    server = Server(json={"schema": 1})
    with admin(server, token=None) as client:
        client.status()
    assert "authorization" not in server.requests[0].headers


def test_refresh_posts_text_source_and_generation():
    """The body has the interface's keys; the answer tells who did not acknowledge."""
    server = Server(json=PLAN)
    with admin(server) as client:
        answer = client.refresh("apply", "edge: {}", "/x/edge.yaml", expect_generation=1)
    assert json.loads(server.requests[0].content) == {
        "mode": "apply",
        "config": "edge: {}",
        "source": "/x/edge.yaml",
        "expect_generation": 1,
    }
    assert not answer.refused
    assert not answer.restart_required
    assert answer.unacknowledged == ("n2",)


@pytest.mark.parametrize("status", [409, 422])
def test_a_rejected_candidate_is_an_answer(status):
    """Findings and a moved generation come back as the refresh JSON."""
    with admin(Server(status, json=PLAN | {"findings": [{"code": "x"}]})) as client:
        answer = client.refresh("dry-run", "", "/x")
    assert answer.refused
    assert answer.body["findings"] == [{"code": "x"}]


def test_a_wrong_token_is_refused_in_words():
    """401 is AdminRefused with the server's message."""
    error = {"error": {"message": "needs the admin token", "code": "invalid_api_key"}}
    with admin(Server(401, json=error)) as client, pytest.raises(AdminRefused, match="admin token"):
        client.refresh("dry-run", "", "/x")


def test_drain_and_undrain_name_the_node():
    """The node id is one path segment whatever is in it; the lease is in the body."""
    server = Server(json={"id": "a/b"})
    with admin(server) as client:
        client.drain("a/b", lease_s=60, by="me", reason="update")
        client.undrain("a/b")
    put, delete = server.requests
    assert (put.method, put.url.raw_path) == ("PUT", b"/nodes/a%2Fb/drain")
    assert json.loads(put.content) == {"lease_s": 60, "by": "me", "reason": "update"}
    assert delete.method == "DELETE"


def test_events_resume_after_an_id():
    """The id travels as Last-Event-ID; events come typed."""
    server = Server(content=STREAM)
    with admin(server) as client, client.events(6) as events:
        got = list(events)
    assert server.requests[0].headers["last-event-id"] == "6"
    assert [(event.id, event.type, event.data) for event in got] == [(7, "granted", {"seq": 7})]


def test_refused_events_say_why():
    """An error instead of a stream is told with its words."""
    client = admin(Server(400, json={"error": {"message": "bad id", "code": "invalid_body"}}))
    with client, pytest.raises(AdminRefused, match="bad id"), client.events(6):
        pass


def test_a_dead_address_is_unreachable():
    """A refused connection names the address, for calls and for streams."""

    def refuse(request):
        raise httpx.ConnectError("Connection refused", request=request)

    with admin(refuse) as client:
        with pytest.raises(AdminUnreachable, match="http://edge:1"):
            client.status()
        with pytest.raises(AdminUnreachable, match="refused"), client.events():
            pass


def test_a_proxy_of_the_environment_is_ignored(monkeypatch):
    """A proxy variable does not reroute loopback calls."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with AdminClient("http://127.0.0.1:1", timeout=5) as client:
        assert not client._http.trust_env
        assert client._http._mounts == {}


def test_the_control_plane_is_read():
    """Edges, one status and events have their paths."""
    server = Server(json={"edges": [{"id": "e", "reachable": True, "age_s": 0.1}]})
    with ControlClient("http://control:1", transport=httpx.MockTransport(server)) as client:
        assert client.edges()[0]["id"] == "e"
        client.status("e")
        with client.events("e", 3) as events:
            assert list(events) == []
    assert [request.url.path for request in server.requests] == ["/edges", "/edges/e/status", "/edges/e/events"]


def test_something_else_on_the_control_port_is_said_so():
    """JSON without edges is not the Control Plane."""
    client = ControlClient("http://control:1", transport=httpx.MockTransport(Server(json={})))
    with client, pytest.raises(AdminUnreachable, match="iop-control"):
        client.edges()
