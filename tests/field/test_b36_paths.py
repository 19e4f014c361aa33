"""Field case B36: the spellings of paths that clients send, and of base URLs that operators write."""

import contextlib
from pathlib import Path

import pytest

from tests.fakes.fake_up import FakeUp, healthy
from tests.fakes.stack import CHAT, RESPONSES, Engine, answer_ok, chat, stack

ACCEPTED = {
    "/v1/chat/completions": CHAT,
    "//v1/chat/completions": CHAT,
    "/v1/chat/completions/": CHAT,
    "//v1//chat//completions//": CHAT,
    "/v1/chat/completions?api-version=2024-10-21": CHAT,
    "/v1/chat%2Fcompletions": CHAT,
    "/v1/responses": RESPONSES,
    "//v1/responses/": RESPONSES,
    "/v1/responses?client_version=0.171.0": RESPONSES,
}
WRONG = {
    "/chat/completions": CHAT,
    "/v1/v1/chat/completions": CHAT,
    "/v1/chat/completions/chat/completions": CHAT,
    "/api/v1/chat/completions": CHAT,
    "/V1/chat/completions": CHAT,
    "/openai/deployments/m/chat/completions": CHAT,
    "/v1/completions": CHAT,
    "/responses": RESPONSES,
    "/v1/v1/responses": RESPONSES,
    "/v1/embeddings": "POST /v1/responses",
    "/": "POST /v1/responses",
}
LISTS = {
    "/v1/models": 200,
    "//v1/models/": 200,
    "/v1/models?limit=3": 200,
    "/v1/models/m": 200,
    "/v1/models/m/": 200,
    "//v1//models//m": 200,
    "/models": 404,
    "/v1/v1/models/m": 404,
    "/v1": 404,
}


async def test_b36_a_forgiven_spelling_reaches_the_engine_in_the_right_one(tmp_path: Path) -> None:
    """Field case B36: doubled and trailing slashes and a query are forgiven; the engine sees one exact path."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        for sent, right in ACCEPTED.items():
            answer = await s.post(chat(), sent)
            seen = s.up.requests[-1]
            assert (sent, answer.status, seen.method, seen.path) == (sent, 200, "POST", right)
        assert len(s.up.requests) == len(ACCEPTED)


async def test_b36_a_wrong_path_is_told_the_right_one(tmp_path: Path) -> None:
    """Field case B36: anything else is a 404 in OpenAI's shape that names what was meant; no engine hears of it."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        for sent, right in WRONG.items():
            answer = await s.post(chat(), sent)
            assert (sent, answer.status, answer.code) == (sent, 404, "not_found")
            assert answer.headers["content-type"] == "application/json"
            assert set(answer.json["error"]) == {"message", "type", "param", "code"}
            assert right in answer.json["error"]["message"]
        assert s.up.requests == []
        assert s.totals("received") == (0,)


async def test_b36_spellings_of_the_model_list(tmp_path: Path) -> None:
    """Field case B36: the list and its entries are found in the same spellings, and HEAD agrees with GET."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        for sent, status in LISTS.items():
            answer = await s.get(sent)
            assert (sent, answer.status) == (sent, status)
            if status == 404:
                assert "/v1/models" in answer.json["error"]["message"]
            client = await s.connect()
            await client.send(f"HEAD {sent} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            await client.ended()
            assert client.seen.startswith(f"HTTP/1.1 {status} ".encode())
            assert client.seen.endswith(b"\r\n\r\n")


async def test_b36_a_wrong_method_is_told_the_right_one(tmp_path: Path) -> None:
    """Field case B36: 405 with Allow, in every accepted spelling of the path."""
    wrong = (("GET", CHAT, "POST"), ("PUT", RESPONSES, "POST"), ("DELETE", "/v1/models/m", "GET, HEAD"))
    async with stack(tmp_path, Engine(answer_ok)) as s:
        for method, path, allow in (*wrong, ("POST", "//v1/models/", "GET, HEAD")):
            client = await s.connect()
            await client.send(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n".encode())
            answer = await client.answer()
            assert (path, answer.status, answer.code) == (path, 405, "method_not_allowed")
            assert answer.headers["allow"] == allow


@pytest.mark.parametrize("origin", [None, "http://localhost:3000", "https://evil.example"])
async def test_b36_a_preflight_grants_nothing(tmp_path: Path, origin: str | None) -> None:
    """Field case B36: OPTIONS never carries a CORS grant, so no foreign page may send what follows it."""
    headers = ("Access-Control-Request-Method: POST", *((f"Origin: {origin}",) if origin else ()))
    async with stack(tmp_path, Engine(answer_ok)) as s:
        client = await s.connect()
        await client.send("\r\n".join((f"OPTIONS {CHAT} HTTP/1.1", "Host: 127.0.0.1", *headers, "", "")).encode())
        answer = await client.answer()

        foreign = origin == "https://evil.example"
        assert (answer.status, answer.code) == ((400, "invalid_host") if foreign else (405, "method_not_allowed"))
        assert not any(name.startswith("access-control-") for name in answer.headers)


async def test_b36_a_providers_base_url_in_any_spelling(tmp_path: Path) -> None:
    """Field case B36: with or without /v1, with slashes or as a full endpoint, the engine sees the same two paths."""
    spellings = ("", "/", "/v1", "/v1/", "//v1//", "/v1/chat/completions", "/v1/responses", "/v1/models/")
    async with contextlib.AsyncExitStack() as parts:
        ups = [await parts.enter_async_context(FakeUp(answer_ok, probe=healthy)) for _ in spellings]
        engines = [Engine(f"http://127.0.0.1:{up.port}{tail}") for up, tail in zip(ups, spellings, strict=True)]
        models = [{"id": "m", "providers": {"p1": "m"}}]
        models += [{"id": f"m{n}", "providers": {f"p{n}": "m"}} for n in range(1, len(ups) + 1)]
        s = await parts.enter_async_context(stack(tmp_path, *engines, models=models))
        for number, up in enumerate(ups, start=1):
            body = chat(model=f"m{number}")
            assert [(await s.post(body, path)).status for path in (CHAT, RESPONSES)] == [200, 200]
            assert [exchange.path for exchange in up.requests] == [CHAT, RESPONSES]


async def test_b36_a_prefix_of_a_providers_base_url_is_kept(tmp_path: Path) -> None:
    """Field case B36: what stands before /v1 (Lemonade's /api) or instead of it is the engine's own."""
    models = [{"id": "m", "providers": {"p1": "m"}}, {"id": "n", "providers": {"p2": "n"}}]
    async with FakeUp(answer_ok, probe=healthy) as up, contextlib.AsyncExitStack() as parts:
        engines = [Engine(f"http://127.0.0.1:{up.port}{prefix}") for prefix in ("/api/v1", "/openai")]
        s = await parts.enter_async_context(stack(tmp_path, *engines, models=models))
        assert [(await s.post(chat(model=model))).status for model in ("m", "n")] == [200, 200]
        paths = [exchange.path for exchange in up.requests]
        assert paths == ["/api/v1/chat/completions", "/openai/chat/completions"]


@pytest.mark.parametrize("line", ["OPTIONS *", "CONNECT 127.0.0.1:80"])
async def test_b36_a_request_without_a_path(tmp_path: Path, line: str) -> None:
    """Field case B36: told which paths there are, as for any wrong path."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        client = await s.connect()
        await client.send(f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        answer = await client.answer()
        assert (answer.status, answer.code) == (404, "not_found")
        assert "POST /v1/responses" in answer.json["error"]["message"]
