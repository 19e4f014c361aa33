"""The interface page's §4 and §5 against a running stack, with raw sockets: headers, error table, odd clients."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.agents import python
from tests.fakes.raw_client import Answer, parse
from tests.fakes.stack import CHAT, Engine, Stack, answer_ok, chat, stack

ECHO = python("import sys; print(sys.stdin.read(), end='')")
LENGTH = f"Content-Length: {len(chat())}"
HOST = "Host: localhost"
JSON = "Content-Type: application/json"


@pytest.fixture
async def s(tmp_path: Path) -> AsyncIterator[Stack]:
    """A stack with one engine, one agent and the default admin token."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": ECHO}) as made:
        yield made


async def ask(
    s: Stack, line: str, *headers: str, body: bytes = b"", port: str = "openai", version: str = "1.1"
) -> Answer:
    """Send these very lines, and read the answer."""
    client = await s.connect(port)
    await client.send("\r\n".join((f"{line} HTTP/{version}", *headers, "", "")).encode() + body)
    return await client.answer()


async def test_who_made_an_answer_can_be_told_from_its_headers(s: Stack) -> None:
    """A provider's, an agent's and iop's own answers each carry their headers, and all of them a request id."""
    own = await s.post(chat(), CHAT, "x-request-id: my-id/1")
    assert own.headers["x-request-id"] == "my-id/1"
    assert (own.headers["x-iop-provider"], own.headers["x-iop-queue-ms"].isdigit()) == ("p1", True)
    assert "x-iop-node" not in own.headers
    agent = await s.post(chat("hey", model="agent"), CHAT, "x-request-id: " + "a" * 129)
    assert agent.headers["x-iop-node"] == "n1"
    assert agent.headers["x-request-id"].startswith("req_")
    assert "x-iop-provider" not in agent.headers
    for answer in (
        await s.get("/v1/models"),
        await s.post(chat(model="nobody")),
        await s.post(chat("a\0b", model="agent")),
        await s.get("/status", "admin"),
    ):
        assert answer.headers["x-request-id"].startswith("req_")
        assert not any(name.startswith("x-iop-") for name in answer.headers)


@pytest.mark.parametrize(
    ("line", "headers", "body", "expected"),
    [
        (f"POST {CHAT}", (HOST,), b"{", (400, "invalid_json")),
        (f"POST {CHAT}", (HOST,), b"[]", (400, "invalid_body")),
        (f"POST {CHAT}", (HOST,), b'{"model": "m", "model": "n"}', (400, "invalid_body")),
        (f"POST {CHAT}", (HOST,), b'{"model": "m", "x": NaN}', (400, "invalid_json")),
        (f"POST {CHAT}", (HOST,), b'{"model": null}', (400, "missing_model")),
        (f"POST {CHAT}", (HOST,), chat("a\0b", model="agent"), (400, "invalid_body")),
        (f"POST {CHAT}", (HOST,), b'{"model": "nobody"}', (404, "model_not_found")),
        (f"POST {CHAT}", (HOST, "Content-Encoding: br"), b"{}", (415, "unsupported_encoding")),
        ("GET /v1/models/org%2Fnobody", (HOST,), b"", (404, "model_not_found")),
        ("GET /v1/models", ("Host: evil.example",), b"", (400, "invalid_host")),
        ("GET /v1/models", (), b"", (400, "invalid_host")),
        ("GET /v1/models", (HOST, HOST), b"", (400, "invalid_host")),
        ("GET /v1/models", (HOST, "Origin: https://evil.example"), b"", (400, "invalid_host")),
        ("GET /v1/responses", (HOST, "Connection: Upgrade", "Upgrade: websocket"), b"", (426, "upgrade_not_supported")),
        ("GET /nowhere", (HOST,), b"", (404, "not_found")),
    ],
)  # fmt: skip
async def test_the_error_table(
    s: Stack, line: str, headers: tuple[str, ...], body: bytes, expected: tuple[int, str]
) -> None:
    """Each wrong request has its status and code, in OpenAI's error shape; none asks for a slot."""
    answer = await ask(s, line, *headers, *((f"Content-Length: {len(body)}",) if body else ()), body=body)
    assert (answer.status, answer.code) == expected
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["x-request-id"].startswith("req_")
    assert set(answer.json["error"]) == {"message", "type", "param", "code"}
    assert answer.json["error"]["type"] == "invalid_request_error"
    assert s.totals("received") == (0,)


@pytest.mark.parametrize(
    "headers",
    [
        (LENGTH, "Authorization: Bearer a", "Authorization: Bearer b"),
        (LENGTH, LENGTH),
        (LENGTH, "Content-Length: 1"),
        (LENGTH, "Transfer-Encoding: chunked"),
        ("Content-Length: +5",),
    ],
)
async def test_ambiguous_requests_are_refused_and_the_connection_closed(s: Stack, headers: tuple[str, ...]) -> None:
    """Two Authorization headers and ambiguous lengths are a 400; nothing that follows on the connection is read."""
    client = await s.connect()
    lines = (f"POST {CHAT} HTTP/1.1", HOST, *headers, "", "")
    await client.send("\r\n".join(lines).encode() + chat() + b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await client.answer()).status == 400
    await client.ended()
    assert client.seen.count(b"HTTP/1.") == 1
    assert s.totals("received") == (0,)


@pytest.mark.parametrize(
    ("method", "path", "port", "allow"),
    [
        ("DELETE", "/v1/models", "openai", {"GET", "HEAD"}),
        ("GET", CHAT, "openai", {"POST"}),
        ("OPTIONS", "/v1/responses", "openai", {"POST"}),
        ("POST", "/status", "admin", {"GET", "HEAD"}),
        ("GET", "/config/refresh", "admin", {"POST"}),
    ],
)
async def test_405_tells_what_is_allowed(s: Stack, method: str, path: str, port: str, allow: set[str]) -> None:
    """A wrong method is a 405 with Allow."""
    answer = await ask(s, f"{method} {path}", HOST, port=port)
    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == allow


async def test_head_and_health(s: Stack) -> None:
    """HEAD answers as GET does, without the body; health and readiness on both ports."""
    for path, port in (("/v1/models", "openai"), ("/healthz", "openai"), ("/readyz", "openai"), ("/readyz", "admin")):
        client = await s.connect(port)
        await client.send(f"HEAD {path} HTTP/1.1\r\n{HOST}\r\nConnection: close\r\n\r\n".encode())
        await client.ended()
        assert client.seen.startswith(b"HTTP/1.1 200")
        assert client.seen.endswith(b"\r\n\r\n")
        assert (await s.get(path, port)).status == 200


async def test_pipelined_requests_are_answered_in_order(s: Stack) -> None:
    """Two requests sent at once on one connection get two answers, in order."""
    client = await s.connect()
    first = f"POST {CHAT} HTTP/1.1\r\n{HOST}\r\n{LENGTH}\r\n\r\n".encode() + chat()
    await client.send(first + f"GET /v1/models HTTP/1.1\r\n{HOST}\r\nConnection: close\r\n\r\n".encode())
    await client.ended()
    answers = client.seen.split(b"HTTP/1.1 200 OK")
    assert [b"chat.completion" in answers[1], b'"object":"list"' in answers[2]] == [True, True]


@pytest.mark.parametrize("model", ["m", "agent"])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_http_1_0_client_is_served_without_chunks(s: Stack, stream: bool, model: str) -> None:
    """An HTTP/1.0 client gets a plain body that ends with its connection."""
    body = chat("hey", model=model, stream=stream)
    client = await s.connect()
    await client.send(f"POST {CHAT} HTTP/1.0\r\n{HOST}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    await client.ended()
    answer = parse(bytes(client.seen))
    assert (answer.status, "transfer-encoding" in answer.headers) == (200, False)
    assert b"hey" in answer.body or model == "m"
    if model == "agent" and stream:
        assert answer.body.endswith(b"data: [DONE]\n\n")


async def test_the_admin_port_refuses_as_the_page_says(s: Stack, tmp_path: Path) -> None:
    """State changes need the token, whose scheme is case-insensitive; bodies are JSON and bounded."""
    token = (tmp_path / "admin.token").read_text().strip()
    key, kind = f"Authorization: bEARER  {token}", "Content-Type: application/json"

    async def change(line: str, *headers: str, body: bytes = b"{}") -> tuple[int, str | None]:
        answer = await ask(s, line, HOST, *headers, f"Content-Length: {len(body)}", body=body, port="admin")
        return answer.status, answer.json.get("error", {}).get("code")

    for line in ("POST /config/refresh", "PUT /nodes/n1/drain", "DELETE /nodes/n1/drain", f"POST /providers/p1{CHAT}"):
        assert await change(line, kind) == (401, "invalid_api_key")
        assert await change(line, kind, "Authorization: Bearer wrong") == (401, "invalid_api_key")
    for line in ("POST /config/refresh", "PUT /nodes/n1/drain", f"POST /providers/p1{CHAT}"):
        assert await change(line, key) == (415, "unsupported_encoding")
        assert await change(line, key, "Content-Type: text/plain") == (415, "unsupported_encoding")
    assert await change("POST /config/refresh", key, kind, body=b" " * 9_000_000) == (413, "body_too_large")
    assert await change("DELETE /nodes/n9/drain", key) == (404, "not_found")
    assert (await change("PUT /nodes/n1/drain", key, kind, body=b'{"lease_s": 60}'))[0] == 200
    assert (await s.post(chat(model="agent"))).code == "node_draining"
    checked = await change(f"POST /providers/p1{CHAT}", key, kind, "Expect: 100-continue", body=chat())
    assert checked == (200, None)
    assert (await change("DELETE /nodes/n1/drain", key))[0] == 200


async def test_a_check_grants_100_continue_once(s: Stack, tmp_path: Path) -> None:
    """The admin's check of a provider reads its body as the OpenAI port does."""
    token = (tmp_path / "admin.token").read_text().strip()
    client = await s.connect("admin")
    lines = (f"POST /providers/p1{CHAT} HTTP/1.1", HOST, f"Authorization: Bearer {token}", JSON, LENGTH)
    await client.send("\r\n".join((*lines, "Expect: 100-continue", "", "")).encode())
    await client.until(b"100 Continue\r\n\r\n")
    await client.send(chat())
    assert (await client.answer()).status == 200
    assert client.seen.count(b"100 Continue") == 1
    assert json.loads(client.seen.rpartition(b"\r\n\r\n")[2])["object"] == "chat.completion"
