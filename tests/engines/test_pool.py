"""Three real llama.cpp servers behind the pool: capacity, clients that leave, an engine that dies."""

import asyncio

import httpx
import pytest

from tests.cluster.harness import Cluster, eventually
from tests.cluster.load import PATHS, burst, payload
from tests.cluster.proof import prove
from tests.engines.llama import metrics, watched

LONG = 6_000  # tokens: seconds of work for one server
OTHER_ROUTES = (
    ("POST", "/v1/completions"),
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/nothing"),
    ("GET", "/slots"),
    ("GET", "/props"),
    ("GET", "/v1/models/engine-gx10-vllm"),
)


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_capacity_plus_one_fills_the_pool_and_no_engine_holds_back(
    pool: Cluster, endpoint: str, stream: bool
) -> None:
    """Eleven at once over 3+4+3 real slots: total 10, one in line, and llama.cpp never had more than its slots."""
    async with watched(pool) as seen:
        await prove(pool, 11, endpoint, tokens=1000 if stream else 2500, stream=stream)

    for provider, samples in seen.items():
        assert max(processing for processing, _ in samples) == pool.capacities[provider]
        assert max(deferred for _, deferred in samples) == 0


async def test_a_client_that_leaves_a_stream_stops_the_engine(pool: Cluster) -> None:
    """The connection to the engine is closed, llama.cpp stops long before the end, the slot is free."""
    before = await _tokens(pool)
    async with pool.client.stream(
        "POST", pool.openai + PATHS["chat"], json=payload("chat", tokens=LONG, stream=True)
    ) as response:
        assert response.status_code == 200
        await anext(response.aiter_bytes())

    status = await pool.calm()
    assert status["totals"]["cancelled"] == 1
    assert await _tokens(pool) - before < LONG


async def test_a_client_that_leaves_a_whole_answer_holds_its_slot_until_the_engine_is_done(pool: Cluster) -> None:
    """llama.cpp goes on without its client, so the slot is busy as long as llama.cpp is."""
    before = await _tokens(pool)
    body = payload("chat", tokens=LONG, stream=False)
    request = asyncio.ensure_future(pool.client.post(pool.openai + PATHS["chat"], json=body))
    await eventually(lambda: _processing(pool), "an engine works")
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)

    await pool.status_where(lambda s: s["totals"]["in_flight"] == 0, "the slot is free")
    assert await _processing(pool) == 0  # seen after the slot was free: an engine still at work would show here
    assert await _tokens(pool) - before == LONG
    await pool.calm()


async def test_a_killed_engine_loses_only_what_it_had_begun(pool: Cluster) -> None:
    """SIGKILL of a real server under load: at most its four answers fail, it comes back, the pool is whole again."""
    load = asyncio.ensure_future(burst(pool, 20, "chat", tokens=1000))
    await pool.status_where(lambda s: s["totals"]["in_flight"] == 10, "a full pool")
    await pool.processes["engine-gx10-vllm"].kill()
    failed = [answer for answer in await load if not answer.ok]

    assert len(failed) <= 4
    assert all(answer.error or answer.status == 502 for answer in failed)
    await pool.start_engine("gx10-vllm")
    await pool.all_ready()
    await pool.calm()
    await prove(pool, 11, "chat", tokens=800)


async def test_an_engines_other_routes_are_not_reachable(pool: Cluster) -> None:
    """llama.cpp has these routes or names; the pool answers 404 as OpenAI does, and no engine works."""
    before = await _tokens(pool)
    for method, path in OTHER_ROUTES:
        url = pool.openai.removesuffix("/v1") + path
        answer = await pool.client.request(method, url, json={"model": "pool", "prompt": "x"})

        assert (path, answer.status_code) == (path, 404)
        assert set(answer.json()["error"]) == {"message", "type", "code", "param"}
    assert await _tokens(pool) == before


async def test_an_engines_refusal_passes_as_it_is(pool: Cluster) -> None:
    """A prompt that no slot holds: llama.cpp's own 400 with its own words, and the slot is free."""
    body = payload("chat", tokens=5, stream=True, content="amber birch " * 20_000)
    answer: httpx.Response = await pool.client.post(pool.openai + PATHS["chat"], json=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "exceed_context_size_error"
    await pool.calm()


async def _tokens(pool: Cluster) -> float:
    """Tokens that all engines have made."""
    return sum([(await metrics(pool, provider))["tokens_predicted_total"] for provider in pool.capacities])


async def _processing(pool: Cluster) -> float:
    return sum([(await metrics(pool, provider))["requests_processing"] for provider in pool.capacities])
