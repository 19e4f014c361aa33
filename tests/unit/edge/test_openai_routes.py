"""The OpenAI port: paths, methods, models, bad input."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from tests.fakes.edge_under_test import EdgeUnderTest, edge_under_test
from tests.fakes.raw import raw, request

KEYS = {
    "api_keys": [
        {"name": "all", "sha256": hashlib.sha256(b"sk-all").hexdigest()},
        {"name": "pool", "sha256": hashlib.sha256(b"sk-pool").hexdigest(), "models": ["m"]},
    ]
}


async def test_models_lists_every_configured_model(edge: EdgeUnderTest) -> None:
    """All models are listed, ready or not, owned by iop; Codex gets its `models` key too."""
    plain = await (await edge.session.get(edge.url("/v1/models"))).json()
    codex = await (await edge.session.get(edge.url("/v1/models?client_version=0.171"))).json()

    assert [(m["id"], m["object"], m["owned_by"]) for m in plain["data"]] == [
        ("m", "model", "iop"),
        ("agent", "model", "iop"),
    ]
    assert "models" not in plain
    assert codex["models"] == []


@pytest.mark.parametrize("path", ["/v1/models/org/name", "/v1/models/org%2Fname", "//v1/models/org/name/"])
async def test_ids_with_slashes_can_be_fetched(tmp_path: Path, path: str) -> None:
    """Field case B35: a listed id can be fetched, raw and escaped."""
    models = [{"id": "org/name", "providers": {"p1": "x"}}]
    async with edge_under_test(tmp_path, models=models) as edge:
        answer = await edge.session.get(edge.url(path))

        assert (await answer.json())["id"] == "org/name"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/chat/completions", 404, "not_found"),
        ("POST", "/v1/v1/chat/completions", 404, "not_found"),
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/v1/models/none", 404, "model_not_found"),
    ],
)
async def test_wrong_paths_and_methods_are_told_in_json(
    edge: EdgeUnderTest, method: str, path: str, status: int, code: str
) -> None:
    """Field case B36: the error names the right path or method."""
    answer = await edge.session.request(method, edge.url(path))
    error = (await answer.json())["error"]

    assert (answer.status, error["code"]) == (status, code)
    assert "x-iop-provider" not in answer.headers
    if status == 405:
        assert answer.headers["Allow"]


async def test_health_and_readiness(edge: EdgeUnderTest) -> None:
    """Ready once listening, whatever the providers do; 503 while shutting down."""
    assert (await edge.session.get(edge.url("/healthz"))).status == 200
    assert (await edge.session.head(edge.url("/readyz"))).status == 200
    edge.core.shutting_down = True
    answer = await edge.session.get(edge.url("/readyz"))
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b'{"model": "m", "temperature": NaN}', 400, "invalid_json"),
        (b"[]", 400, "invalid_body"),
        (b'{"model": "m", "model": "m"}', 400, "invalid_body"),
        (b"{}", 400, "missing_model"),
        (b'{"model": 42}', 400, "missing_model"),
        (b'{"model": "M"}', 404, "model_not_found"),
        (b'{"model": "m", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, None),
    ],
    ids=["cut", "nan", "array", "twice", "none", "number", "case", "deep"],
)
async def test_bad_bodies_are_4xx_and_the_next_request_works(
    edge: EdgeUnderTest, body: bytes, status: int, code: str | None
) -> None:
    """Bad input is a 4xx that says what to change; the process goes on (Field case B32)."""
    answer = await edge.session.post(edge.url("/v1/chat/completions"), data=body)
    error = (await answer.json())["error"]

    assert answer.status == status
    assert error["code"] == code or code is None
    assert (await edge.session.get(edge.url("/v1/models"))).status == 200
    assert edge.status()["totals"]["received"] == 0


async def test_an_upgrade_is_a_426(edge: EdgeUnderTest) -> None:
    """A WebSocket attempt is answered at once, so that the client falls back to POST."""
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13")
    data = b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\n" + "\r\n".join(upgrade).encode() + b"\r\n\r\n"
    reader, writer = await asyncio.open_connection(*edge.address("openai"))
    writer.write(data)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    writer.close()

    assert head.startswith(b"HTTP/1.1 426")


async def test_two_authorization_headers_close_the_connection(edge: EdgeUnderTest) -> None:
    """Ambiguous credentials: 400, connection closed."""
    data = request(
        "/v1/chat/completions", b'{"model": "m"}', headers=("Authorization: Bearer a", "Authorization: Bearer b")
    )
    answer = await raw(*edge.address("openai"), data.replace(b"Connection: close\r\n", b""))

    assert answer.startswith(b"HTTP/1.1 400")


async def test_keys_guard_the_api_and_allow_lists_hide_models(tmp_path: Path) -> None:
    """Without a key 401; a key with an allow-list does not even see other models."""
    async with edge_under_test(tmp_path, auth=KEYS) as edge:
        none = await edge.session.get(edge.url("/v1/models"))
        listed = await edge.session.get(edge.url("/v1/models"), headers={"Authorization": "bearer sk-pool"})
        hidden = await edge.post(body={"model": "agent"}, headers={"Authorization": "Bearer sk-pool"})
        one = await edge.session.get(edge.url("/v1/models/agent"), headers={"Authorization": "Bearer sk-pool"})

        assert none.status == 401
        assert [m["id"] for m in (await listed.json())["data"]] == ["m"]
        assert (hidden.status, (await hidden.json())["error"]["code"]) == (404, "model_not_found")
        assert one.status == 404


async def test_large_bodies_pass_and_the_limit_is_told(tmp_path: Path) -> None:
    """Field case B28: bodies far over 1 MiB arrive whole at the node; beyond http.max_body it is a JSON 413."""
    async with edge_under_test(tmp_path, http={"max_body": "9MiB"}) as edge:
        node = await edge.node()
        content = "x" * (8 * 1024 * 1024)
        waiting = asyncio.ensure_future(
            edge.post(body={"model": "m", "messages": [{"role": "user", "content": content}]})
        )
        run = await edge.run(node)
        sent = bytes(node.bodies[run.run])
        node.answer(run.run, b'{"ok":true}')
        answer = await waiting
        too_large = await edge.post(body={"model": "m", "x": "y" * (10 * 1024 * 1024)})

        assert answer.status == 200
        assert sent.count(b"x") >= len(content)
        assert (too_large.status, (await too_large.json())["error"]["code"]) == (413, "body_too_large")
        await node.close()
