"""Request ids, JSON errors, Host and Origin."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientPayloadError, web
from aiohttp.test_utils import TestClient, TestServer

from iop.domain.errors import QueueFull
from iop.transport.hosts import HostRule
from iop.transport.http_border import error_middleware, host_middleware, kept_apart, request_id


async def _hello(request: web.Request) -> web.Response:
    return web.json_response({"id": request_id(request)})


async def _full(_request: web.Request) -> web.Response:
    raise QueueFull("The line is full.", retry_after=3)


async def _fault(_request: web.Request) -> web.Response:
    raise ZeroDivisionError("secret words")


async def _late_fault(request: web.Request) -> web.Response:
    begun = web.StreamResponse()
    await begun.prepare(request)
    await begun.write(b"half")
    raise ZeroDivisionError("secret words")


@pytest.fixture
async def client() -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A small app behind both middlewares."""
    app = web.Application(middlewares=[error_middleware, host_middleware(HostRule(["Box.Local"]))])
    app.router.add_get("/hello", _hello)
    app.router.add_get("/full", _full)
    app.router.add_get("/fault", _fault)
    app.router.add_get("/late-fault", _late_fault)
    async with TestClient(TestServer(app)) as made:
        yield made


Client = TestClient[web.Request, web.Application]


async def test_a_request_gets_an_id(client: Client) -> None:
    """An answer without a client's own id has a new one."""
    answer = await client.get("/hello")

    assert answer.headers["x-request-id"] == (await answer.json())["id"]
    assert answer.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize(("own", "kept"), [("mine-1", True), ("x" * 128, True), ("x" * 129, False)])
async def test_a_clients_own_id_is_kept_when_it_is_short_printable_ascii(client: Client, own: str, kept: bool) -> None:
    """`x-request-id` of at most 128 printable ASCII characters comes back."""
    answer = await client.get("/hello", headers={"x-request-id": own})

    assert (answer.headers["x-request-id"] == own) is kept


async def test_errors_have_openais_shape(client: Client) -> None:
    """An IopError is rendered with its status, code and Retry-After."""
    answer = await client.get("/full", headers={"x-request-id": "q"})

    assert answer.status == 429
    assert answer.headers["Retry-After"] == "3"
    assert answer.headers["x-request-id"] == "q"
    assert (await answer.json())["error"] == {
        "message": "The line is full.", "type": "rate_limit_error", "param": None, "code": "queue_full",
    }  # fmt: skip


async def test_faults_are_a_plain_500(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """What nobody foresaw is logged; the client learns nothing of it."""
    answer = await client.get("/fault")

    assert answer.status == 500
    assert "secret" not in await answer.text()
    assert "unhandled error" in caplog.text


async def test_unknown_path_and_method_are_json(client: Client) -> None:
    """404 and 405 of the router have the error object too; 405 names what is allowed."""
    missing, wrong = await client.get("/nothing"), await client.post("/hello")

    error = (await missing.json())["error"]
    assert error["code"] == "not_found"
    assert "GET /hello" in error["message"]
    assert (await wrong.json())["error"]["code"] == "method_not_allowed"
    assert "GET" in wrong.headers["Allow"]


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}])
async def test_foreign_pages_are_refused(client: Client, headers: dict[str, str]) -> None:
    """A foreign Host or Origin is a 400 invalid_host."""
    answer = await client.get("/hello", headers=headers)

    assert answer.status == 400
    assert (await answer.json())["error"]["code"] == "invalid_host"


async def test_an_own_origin_passes(client: Client) -> None:
    """A page of this very server may ask."""
    assert (await client.get("/hello", headers={"Origin": "http://localhost:1"})).status == 200


async def test_a_fault_in_mid_answer_is_a_cut(client: Client) -> None:
    """What has begun cannot become another answer: no second head is written into it."""
    answer = await client.get("/late-fault")
    with pytest.raises(ClientPayloadError):
        await answer.read()


def test_a_fault_of_another_request_is_kept_from_this_one(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with the id of its own request and told as False; what goes well is True."""
    done: list[int] = []
    assert kept_apart("req-1", lambda: done.append(1))
    assert not kept_apart("req-2", lambda: done[7])
    assert (done, "request req-2" in caplog.text, "request req-1" in caplog.text) == ([1], True, False)
