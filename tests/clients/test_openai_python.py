"""The official Python SDK, sync and async, against the pool over real llama.cpp servers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import httpx
import openai
import pytest
import pytest_asyncio
from openai import OpenAI
from pydantic import BaseModel

from tests.clients.conftest import MODELS
from tests.clients.load import full, held, idle, queued
from tests.cluster.harness import DEADLINE, Cluster

pytestmark = pytest.mark.asyncio(loop_scope="session")
HELLO = [{"role": "user", "content": "hello"}]


class Tree(BaseModel):
    """What a structured answer must be."""

    name: Literal["birch", "linden"]


@pytest.fixture
def sdk(pool: Cluster) -> Iterator[OpenAI]:
    """The sync client. It does not try again by itself, so that nothing is hidden."""
    http = httpx.Client(trust_env=False, timeout=DEADLINE)
    with OpenAI(base_url=pool.openai, api_key="none", max_retries=0, http_client=http) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def aio(pool: Cluster) -> AsyncIterator[openai.AsyncOpenAI]:
    """The async client, without retries of its own."""
    http = httpx.AsyncClient(trust_env=False, timeout=DEADLINE)
    async with openai.AsyncOpenAI(base_url=pool.openai, api_key="none", max_retries=0, http_client=http) as client:
        yield client


async def test_models(sdk: OpenAI) -> None:
    """Listed ids are the configured ones, and each can be fetched, a slash in it or not; another is not found."""
    listed = await asyncio.to_thread(lambda: list(sdk.models.list()))
    assert [model.id for model in listed] == [model["id"] for model in MODELS]
    for model in listed:
        assert await asyncio.to_thread(sdk.models.retrieve, model.id) == model
    with pytest.raises(openai.NotFoundError) as caught:
        await asyncio.to_thread(sdk.models.retrieve, "org/nothing")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize("model", ["pool", "org/Tiny-Llama:1b"])
async def test_chat(sdk: OpenAI, model: str) -> None:
    """Whole, streamed, and by the accumulating helper: the engine's text and its own count of tokens."""

    def calls() -> None:
        whole = sdk.chat.completions.create(model=model, messages=HELLO, max_tokens=12)
        assert whole.choices[0].message.content
        assert whole.usage is not None
        assert whole.usage.completion_tokens == 12
        usage = {"include_usage": True}
        stream = sdk.chat.completions.create(
            model=model, messages=HELLO, max_tokens=12, stream=True, stream_options=usage
        )
        chunks = list(stream)
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert [c.usage.completion_tokens for c in chunks if c.usage] == [12]
        # the helper raises for an answer that is cut by its length: this one ends by itself
        with sdk.chat.completions.stream(model=model, messages=HELLO, stop=["e"], stream_options=usage) as helper:
            deltas = [event.delta for event in helper if event.type == "content.delta"]
            final = helper.get_final_completion()
        assert final.choices[0].message.content == "".join(deltas) != ""
        assert (final.choices[0].finish_reason, final.usage is not None) == ("stop", True)

    await asyncio.to_thread(calls)


async def test_structured_answers(sdk: OpenAI) -> None:
    """`parse` sends a JSON schema, which llama.cpp enforces: the schema has come through whole."""
    answer = await asyncio.to_thread(
        lambda: sdk.chat.completions.parse(model="pool", messages=HELLO, response_format=Tree, max_tokens=200)
    )
    assert answer.choices[0].message.parsed in (Tree(name="birch"), Tree(name="linden"))


async def test_responses(sdk: OpenAI) -> None:
    """Whole and streamed: the text of the deltas is that of the end."""

    def calls() -> None:
        whole = sdk.responses.create(model="pool", input="hello", max_output_tokens=12)
        assert (whole.status, bool(whole.output_text)) == ("completed", True)
        events = list(sdk.responses.create(model="pool", input="hello", max_output_tokens=12, stream=True))
        assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
        deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert events[-1].response.output_text == deltas != ""

    await asyncio.to_thread(calls)


async def test_the_responses_helper(sdk: OpenAI) -> None:
    """`responses.stream()` accumulates llama.cpp's events, which lack the numbers it indexes by."""

    def calls() -> None:
        with sdk.responses.stream(model="pool", input="hello", max_output_tokens=12) as stream:
            events = list(stream)
            final = stream.get_final_response()
        deltas = [event for event in events if event.type == "response.output_text.delta"]
        assert final.output_text == "".join(event.delta for event in deltas) == deltas[-1].snapshot != ""
        assert [event.sequence_number for event in events] == list(range(len(events)))

    await asyncio.to_thread(calls)


async def test_raw_answers_tell_who_answered(sdk: OpenAI) -> None:
    """`with_raw_response` and `with_streaming_response` show iop's headers and the request id that was sent."""

    def calls() -> None:
        raw = sdk.chat.completions.with_raw_response.create(
            model="solo", messages=HELLO, max_tokens=5, extra_headers={"x-request-id": "mine-1"}
        )
        assert (raw.headers["x-iop-provider"], raw.headers["x-request-id"]) == ("gx10-vllm", "mine-1")
        assert raw.headers["x-iop-queue-ms"].isdigit()
        parsed = raw.parse()
        assert (parsed._request_id, parsed.usage.completion_tokens) == ("mine-1", 5)
        with sdk.responses.with_streaming_response.create(model="solo", input="hi", max_output_tokens=5) as answer:
            assert answer.headers["x-iop-provider"] == "gx10-vllm"
            assert answer.parse().output_text

    await asyncio.to_thread(calls)


async def test_an_agent(sdk: OpenAI) -> None:
    """A CLI agent beside the engines answers the same calls."""

    def calls() -> None:
        with sdk.responses.stream(model="agent", input="hello") as stream:
            assert "hello" in stream.get_final_response().output_text
        raw = sdk.chat.completions.with_raw_response.create(model="agent", messages=HELLO)
        assert raw.headers["x-iop-node"] == "mac-codex-node"
        assert "hello" in raw.parse().choices[0].message.content

    await asyncio.to_thread(calls)


async def test_wrong_requests_raise_their_class(aio: openai.AsyncOpenAI) -> None:
    """Unknown model, no model, and llama.cpp's own refusal of a prompt that is too long."""
    for create in (aio.chat.completions.create, aio.responses.create):
        more = {"messages": HELLO} if create == aio.chat.completions.create else {"input": "hi"}
        with pytest.raises(openai.NotFoundError) as unknown:
            await create(model="nothing", **more)
        assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.BadRequestError) as missing:
            await create(model=None, **more)
        assert missing.value.code == "missing_model"
    text = [{"role": "user", "content": "amber birch " * 40_000}]
    # not streamed: this pool opens a stream after 300 ms, and a refusal that took longer is no status any more
    with pytest.raises(openai.BadRequestError, match="context") as long:
        await aio.chat.completions.create(model="pool", messages=text)
    assert long.value.type == "exceed_context_size_error"
    assert long.value.response.headers["x-iop-provider"]


async def test_more_than_fits_waits_and_succeeds(pool: Cluster, aio: openai.AsyncOpenAI) -> None:
    """Six calls at once on three slots: three wait in line, all answer."""
    calls = [
        aio.chat.completions.with_raw_response.create(model="pool", messages=HELLO, max_tokens=800) for _ in range(6)
    ]
    before = (await pool.status())["totals"]["completed"]
    answers = await asyncio.gather(*calls)
    assert {answer.headers["x-iop-provider"] for answer in answers} == set(pool.capacities)
    assert (await pool.status())["totals"]["completed"] - before == 6


@pytest.mark.parametrize("stream", [True, False])
async def test_a_full_line_is_a_rate_limit_error(pool: Cluster, aio: openai.AsyncOpenAI, stream: bool) -> None:
    """One running and three waiting: the next is refused with 429, a code and a Retry-After."""
    async with full(pool):
        with pytest.raises(openai.RateLimitError) as caught:
            await aio.chat.completions.create(model="solo", messages=HELLO, stream=stream)
        assert caught.value.code == "queue_full"
        assert int(caught.value.response.headers["retry-after"]) >= 1


async def test_the_sdk_tries_again_after_retry_after(pool: Cluster, aio: openai.AsyncOpenAI) -> None:
    """With its own retries on, the SDK is refused once, comes back, and succeeds once there is room."""
    again = aio.with_options(max_retries=5)
    async with full(pool):
        before = (await pool.status())["totals"]["refused"]
        call = asyncio.ensure_future(
            again.chat.completions.with_raw_response.create(model="solo", messages=HELLO, max_tokens=5)
        )
        await pool.status_where(lambda s: s["totals"]["refused"] > before, "a refusal")
    assert (await call).retries_taken >= 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_timeout_gives_up_the_place_in_line(pool: Cluster, aio: openai.AsyncOpenAI, stream: bool) -> None:
    """The SDK's timeout passes while it waits: APITimeoutError, and nobody waits in its place any more."""
    before = (await pool.status())["totals"]["abandoned"]
    async with held(pool):
        with pytest.raises(openai.APITimeoutError):
            await aio.with_options(timeout=0.2).chat.completions.create(model="solo", messages=HELLO, stream=stream)
        status = await pool.status_where(lambda s: s["totals"]["queued"] == 0, "nobody in line")
        assert (status["totals"]["abandoned"] - before, status["totals"]["in_flight"]) == (1, 1)


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
async def test_leaving_a_stream_frees_the_slot(pool: Cluster, aio: openai.AsyncOpenAI, endpoint: str) -> None:
    """A stream that its reader closes in the middle is cancelled down to the engine."""
    before = (await pool.status())["totals"]["cancelled"]
    if endpoint == "chat":
        stream = await aio.chat.completions.create(model="solo", messages=HELLO, max_tokens=30_000, stream=True)
    else:
        stream = await aio.responses.create(model="solo", input="hi", max_output_tokens=30_000, stream=True)
    await anext(aiter(stream))
    await stream.close()
    await idle(pool)
    assert (await pool.status())["totals"]["cancelled"] - before == 1


async def test_leaving_the_line(pool: Cluster, aio: openai.AsyncOpenAI) -> None:
    """A call that is cancelled while it waits leaves the line."""
    async with held(pool):
        call = asyncio.ensure_future(aio.chat.completions.create(model="solo", messages=HELLO))
        await queued(pool, 1)
        call.cancel()
        await queued(pool, 0)
        await asyncio.gather(call, return_exceptions=True)


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
async def test_a_long_wait_in_line_does_not_raise(pool: Cluster, aio: openai.AsyncOpenAI, endpoint: str) -> None:
    """Comments keep a waiting stream alive: the SDK, whose read timeout is far shorter than the wait, just gets it."""
    patient = aio.with_options(timeout=httpx.Timeout(DEADLINE, read=5))
    async with held(pool):
        if endpoint == "chat":
            opened = patient.chat.completions.create(model="solo", messages=HELLO, max_tokens=5, stream=True)
        else:
            opened = patient.responses.create(model="solo", input="hi", max_output_tokens=5, stream=True)
        stream = await opened  # the head of the answer comes while it still waits in line
        await queued(pool, 1)
    pieces = [piece async for piece in stream]
    if endpoint == "chat":
        assert pieces[-1].choices[0].finish_reason == "length"
    else:
        assert (pieces[0].type, pieces[-1].type) == ("response.created", "response.completed")


async def _read(stream: AsyncIterator[Any], seen: list[Any]) -> None:
    """Read a stream to its end; what came before it raised is in `seen`."""
    async for piece in stream:
        seen.append(piece)


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
async def test_an_engine_that_dies_in_mid_stream_raises(pool: Cluster, aio: openai.AsyncOpenAI, endpoint: str) -> None:
    """The reader gets an APIError with iop's message and code in the middle of the stream, never a quiet end."""
    if endpoint == "chat":
        stream = await aio.chat.completions.create(model="solo", messages=HELLO, max_tokens=30_000, stream=True)
    else:
        stream = await aio.responses.create(model="solo", input="hi", max_output_tokens=30_000, stream=True)
    seen = [await anext(aiter(stream))]
    await pool.processes["engine-gx10-vllm"].kill()
    with pytest.raises(openai.APIError) as caught:
        await _read(stream, seen)
    assert (caught.value.code, "gx10-vllm" in caught.value.message) == ("upstream_broken", True), caught.value
    if endpoint == "responses":
        assert seen[-1].type == "response.failed"
        assert seen[-1].response.error.message == caught.value.message
    await pool.start_engine("gx10-vllm")
    await pool.all_ready()
