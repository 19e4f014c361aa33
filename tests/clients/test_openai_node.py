"""The official Node SDK against the pool over real llama.cpp servers, and against engines that fail in its hands."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import MODELS
from tests.clients.load import full, held, idle, queued
from tests.clients.programs import Npm
from tests.cluster.harness import Cluster
from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, response, stream_head
from tests.fakes.stack import Engine, stack

real = pytest.mark.asyncio(loop_scope="session")
DRIVER = "openai_node.cjs"
DELTA = event({"id": "c1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "x"}}]})


@real
async def test_every_call(pool: Cluster, npm: Npm) -> None:
    """Models, chat and responses, whole, streamed and by the accumulating helpers, give the engine's text."""

    async def ask(case: str, model: str = "pool", **settings: Any) -> Any:
        told = await npm.run(DRIVER, case, pool.openai, model=model, **settings)
        assert "ok" in told, (case, told)
        return told["ok"]

    models = await ask("models")
    assert [model["id"] for model in models["listed"]] == [model["id"] for model in MODELS]
    assert models["fetched"] == models["listed"]
    whole = await ask("chat", "org/Tiny-Llama:1b")
    assert (whole["tokens"], whole["headers"]["x-iop-provider"]) == (12, "onexplayer-lemonade")
    assert whole["request_id"] == whole["headers"]["x-request-id"]
    streamed = await ask("chatStream")
    assert (streamed["tokens"], len(streamed["text"]) > 12) == ([12], True)
    helper = await ask("chatHelper", stop=["e"])
    assert (helper["finish_reason"], helper["text"]) == ("stop", helper["deltas"])
    answer = await ask("responses")
    assert (answer["status"], len(answer["text"]) > 12) == ("completed", True)
    events = await ask("responsesStream")
    assert (events["first"], events["last"]) == ("response.created", "response.completed")
    assert len(events["text"]) > 12
    final = await ask("responsesHelper")
    assert (final["status"], final["text"]) == ("completed", final["deltas"])
    assert len(final["text"]) > 12


@real
async def test_errors_have_their_class(pool: Cluster, npm: Npm) -> None:
    """Unknown model, a full line, a timeout in line: NotFoundError, RateLimitError, APIConnectionTimeoutError."""
    for case in ("chat", "chatStream", "responses", "responsesStream"):
        error = (await npm.run(DRIVER, case, pool.openai, model="nothing"))["error"]
        assert (error["name"], error["status"], error["code"]) == ("NotFoundError", 404, "model_not_found")
    async with full(pool):
        error = (await npm.run(DRIVER, "chatStream", pool.openai, model="solo"))["error"]
        assert (error["name"], error["code"], int(error["retryAfter"]) >= 1) == ("RateLimitError", "queue_full", True)
    async with held(pool):
        error = (await npm.run(DRIVER, "chat", pool.openai, model="solo", timeout=300))["error"]
        assert error["name"] == "APIConnectionTimeoutError"
        await queued(pool, 0)


@real
async def test_leaving_a_stream_frees_the_slot(pool: Cluster, npm: Npm) -> None:
    """A reader that breaks off: the SDK closes its request though the program lives on, and the engine is free."""
    before = (await pool.status())["totals"]["cancelled"]
    async with npm.start(DRIVER, "leave", pool.openai, model="solo", tokens=30_000) as run:
        assert "first" in await run.line()
        await idle(pool)
        assert run.child.returncode is None
    assert (await pool.status())["totals"]["cancelled"] - before == 1


@real
@pytest.mark.parametrize("case", ["chatStream", "responsesStream"])
async def test_a_long_wait_in_line_does_not_raise(pool: Cluster, npm: Npm, case: str) -> None:
    """Comments come before the first event of a request that waits: the SDK reads over them."""
    async with held(pool):
        waiting = asyncio.ensure_future(npm.run(DRIVER, case, pool.openai, model="solo"))
        await queued(pool, 1)
    assert len((await waiting)["ok"]["text"]) > 12


async def test_the_sdk_comes_back_after_retry_after(tmp_path: Path, npm: Npm) -> None:
    """An engine's 503 with Retry-After passes as it is; the SDK tries again and succeeds."""

    async def script(exchange: Exchange) -> None:
        if len(s.up.requests) == 1:
            fields = (("Content-Type", "application/json"), ("Retry-After", "1"))
            await exchange.send(response(503, b'{"error": {"message": "busy"}}', fields))
        else:
            message = {"role": "assistant", "content": "now"}
            body = {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}
            await exchange.send(response(200, event(body)[6:].strip()))

    async with stack(tmp_path, Engine(script)) as s:
        first = await npm.run(DRIVER, "chat", s.base_url, model="m")
        assert (first["error"]["status"], first["error"]["retryAfter"]) == (503, "1")
        s.up.requests.clear()
        assert (await npm.run(DRIVER, "chat", s.base_url, model="m", retries=2))["ok"]["text"] == "now"
        assert len(s.up.requests) == 2


async def _dies(exchange: Exchange) -> None:
    await exchange.send(stream_head() + chunk(DELTA) * 3)
    exchange.close()


async def _tells(exchange: Exchange) -> None:
    error = event({"error": {"message": "out of memory", "type": "server_error", "code": "oom"}})
    await exchange.send(stream_head() + chunk(DELTA * 3 + error) + LAST_CHUNK)


@pytest.mark.parametrize(("script", "code"), [(_dies, "upstream_broken"), (_tells, "oom")])
async def test_a_failure_in_mid_stream_raises(tmp_path: Path, npm: Npm, script: Any, code: str) -> None:
    """A cut is iop's error, an engine's own error passes: an APIError with its code either way, after what came."""
    async with stack(tmp_path, Engine(script)) as s, npm.start(DRIVER, "chatStream", s.base_url, model="m") as run:
        first, last, told = await run.lines()
        assert first["first"] == last["read"]
        assert (told["error"]["name"], told["error"]["code"]) == ("APIError", code)


async def test_a_cut_responses_stream_raises(tmp_path: Path, npm: Npm) -> None:
    """The last event before the error is response.failed, with the message that the APIError has."""

    async def script(exchange: Exchange) -> None:
        created = {"id": "resp_1", "object": "response", "status": "in_progress", "output": [], "model": "m"}
        first = event({"type": "response.created", "sequence_number": 0, "response": created})
        await exchange.send(stream_head() + chunk(first))
        exchange.close()

    async with stack(tmp_path, Engine(script)) as s:
        async with npm.start(DRIVER, "responsesStream", s.base_url, model="m") as run:
            first, last, told = await run.lines()
        assert first["first"]["type"] == "response.created"
        assert last["read"]["type"] == "response.failed"
        assert (told["error"]["name"], told["error"]["code"]) == ("APIError", "upstream_broken")
        assert last["read"]["response"]["error"]["message"] in told["error"]["message"]
