"""Vercel's `ai` with its two OpenAI providers: chat through one, responses through the other."""

import asyncio
from pathlib import Path

import pytest

from tests.clients.load import full, held, idle, queued
from tests.clients.programs import Npm
from tests.cluster.harness import Cluster
from tests.fakes.fake_up import Exchange, chunk, event, stream_head
from tests.fakes.stack import Engine, stack

real = pytest.mark.asyncio(loop_scope="session")
providers = pytest.mark.parametrize("provider", ["compatible", "openai"])
DRIVER = "ai_sdk.cjs"
DELTA = event(
    {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": "x"}}],
    }
)
CREATED = event(
    {
        "type": "response.created",
        "sequence_number": 0,
        "response": {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "status": "in_progress",
            "output": [],
            "model": "m",
        },
    }
)


#: llama.cpp calls an answer of the responses API complete though its length cut it
REASONS = {"compatible": "length", "openai": "stop"}


@real
@providers
async def test_generate_text(pool: Cluster, npm: Npm, provider: str) -> None:
    """A whole answer: the engine's text, its reason and its count of tokens."""
    told = (await npm.run(DRIVER, "whole", pool.openai, model="org/Tiny-Llama:1b", provider=provider))["ok"]
    assert (told["finishReason"], told["tokens"], len(told["text"]) > 12) == (REASONS[provider], 12, True)


@real
@providers
async def test_stream_text(pool: Cluster, npm: Npm, provider: str) -> None:
    """A streamed answer: the same, and no error part."""
    told = (await npm.run(DRIVER, "stream", pool.openai, model="org/Tiny-Llama:1b", provider=provider))["ok"]
    assert (told["tokens"], len(told["text"]) > 12) == (12, True)
    assert (told["finishReason"], told["errors"]) == (REASONS[provider], [])


@real
@providers
async def test_refusals(pool: Cluster, npm: Npm, provider: str) -> None:
    """Unknown model and full line: the call's error has status, message and Retry-After, streamed or not."""
    unknown = (await npm.run(DRIVER, "whole", pool.openai, model="nothing", provider=provider))["error"]
    assert (unknown["name"], unknown["status"]) == ("APICallError", 404)
    assert "'nothing' does not exist" in unknown["message"]
    async with full(pool):
        told = (await npm.run(DRIVER, "stream", pool.openai, model="solo", provider=provider))["ok"]
        (error,) = told["errors"]
        assert (error["status"], int(error["retryAfter"]) >= 1, told["text"]) == (429, True, "")


@real
@providers
async def test_leaving_a_stream_frees_the_slot(pool: Cluster, npm: Npm, provider: str) -> None:
    """An aborted streamText is cancelled down to the engine."""
    before = (await pool.status())["totals"]["cancelled"]
    settings = {"model": "solo", "provider": provider, "tokens": 30_000, "leave": True}
    assert (await npm.run(DRIVER, "stream", pool.openai, **settings))["ok"]["aborted"] is True
    await idle(pool)
    assert (await pool.status())["totals"]["cancelled"] - before == 1


@real
async def test_a_long_wait_in_line_does_not_raise(pool: Cluster, npm: Npm) -> None:
    """Comments come before the first event of a request that waits; the text is whole."""
    async with held(pool):
        waiting = asyncio.ensure_future(npm.run(DRIVER, "stream", pool.openai, model="solo", provider="compatible"))
        await queued(pool, 1)
    told = (await waiting)["ok"]
    assert (told["errors"], told["tokens"]) == ([], 12)


@providers
async def test_a_cut_in_mid_stream_is_an_error(tmp_path: Path, npm: Npm, provider: str) -> None:
    """What came is there, then an error with iop's message; never a quiet end."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head() + chunk(DELTA if provider == "compatible" else CREATED))
        exchange.close()

    async with stack(tmp_path, Engine(script)) as s:
        told = (await npm.run(DRIVER, "stream", s.base_url, model="m", provider=provider))["ok"]
        assert told["text"] == ("x" if provider == "compatible" else "")
        assert any("p1" in error["message"] for error in told["errors"]), told
