"""The official SDK against the whole runtime: what it must be able to read, and the errors it must raise."""

import contextlib
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from iop.simulator.answers import token
from iop.simulator.app import Simulator, SimulatorSpec
from iop.transport.http_server import listen
from tests.fakes.agents import python
from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, response, stream_head
from tests.fakes.stack import Engine, Stack, stack

MESSAGES = [{"role": "user", "content": "hi"}]
TEXT = "".join(token(number) for number in range(16))
ECHO = python("import sys; print('you said:', sys.stdin.read(), end='')")
DELTA = event({"id": "c1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "x"}}]})


@contextlib.asynccontextmanager
async def simulator(slots: int = 2, rate: float = 2000) -> AsyncIterator[str]:
    """Run the simulated engine in this loop; its URL."""
    spec = SimulatorSpec(model="m", slots=slots, tokens_per_second=rate)
    listener = await listen(Simulator(spec).app(), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.port}/v1"
    finally:
        await listener.close()


@contextlib.asynccontextmanager
async def sdk(s: Stack, key: str = "none") -> AsyncIterator[AsyncOpenAI]:
    """An SDK client that retries nothing, so that each failure is seen."""
    async with AsyncOpenAI(base_url=s.base_url, api_key=key, max_retries=0, timeout=20) as client:
        yield client


async def _read(stream: AsyncIterator[Any], seen: list[Any]) -> None:
    """Read a stream to its end; what came before it raised is in `seen`."""
    async for piece in stream:
        seen.append(piece)


async def test_chat_and_models(tmp_path: Path) -> None:
    """Chat whole and streamed, with usage, and the model list, as the SDK reads them."""
    async with simulator() as url, stack(tmp_path, Engine(url, capacity=2)) as s, sdk(s) as client:
        answer = await client.chat.completions.create(model="m", messages=MESSAGES)
        assert answer.choices[0].message.content == TEXT
        chunks = [
            piece
            async for piece in await client.chat.completions.create(
                model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
            )
        ]
        assert "".join(piece.choices[0].delta.content or "" for piece in chunks if piece.choices) == TEXT
        assert chunks[-1].usage is not None
        assert [model.id async for model in client.models.list()] == ["m"]
        assert (await client.models.retrieve("m")).owned_by == "iop"


@pytest.mark.parametrize("model", ["m", "agent"])
async def test_responses(tmp_path: Path, model: str) -> None:
    """Responses whole, streamed, and through the SDK's own accumulator, of an engine and of a CLI agent."""
    said = TEXT if model == "m" else "you said: hi"
    async with simulator() as url, stack(tmp_path, Engine(url, 2), agents={"agent": ECHO}) as s, sdk(s) as client:
        answer = await client.responses.create(model=model, input="hi")
        assert (answer.status, answer.output_text) == ("completed", said)
        events = [e async for e in await client.responses.create(model=model, input="hi", stream=True)]
        assert [e.sequence_number for e in events] == list(range(len(events)))
        assert events[-1].type == "response.completed"
        assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == said
        async with client.responses.stream(model=model, input="hi") as stream:
            deltas = [e.delta async for e in stream if e.type == "response.output_text.delta"]
            final = await stream.get_final_response()
        assert final.output_text == "".join(deltas) == said


async def test_chat_of_an_agent(tmp_path: Path) -> None:
    """A CLI agent answers chat, whole and streamed."""
    async with simulator() as url, stack(tmp_path, Engine(url), agents={"agent": ECHO}) as s, sdk(s) as client:
        answer = await client.chat.completions.create(model="agent", messages=MESSAGES)
        assert answer.choices[0].message.content == "you said: hi"
        stream = await client.chat.completions.create(model="agent", messages=MESSAGES, stream=True)
        pieces = [piece async for piece in stream]
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "you said: hi"
        assert pieces[-1].choices[0].finish_reason == "stop"


async def test_a_full_line_is_a_rate_limit_error(tmp_path: Path) -> None:
    """429 queue_full raises RateLimitError with its code and Retry-After; a dropped SDK stream frees its slot."""
    async with (
        simulator(1, 20) as url,
        stack(tmp_path, Engine(url), queue={"max_waiting": 1}) as s,
        sdk(s) as client,
    ):
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, max_tokens=2000, stream=True)
        waiter = await s.open()
        await s.until(lambda status: status["totals"]["queued"] == 1)
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        assert caught.value.code == "queue_full"
        assert int(caught.value.response.headers["retry-after"]) >= 1
        await stream.close()
        assert (await waiter.answer()).status == 200


async def test_wrong_requests(tmp_path: Path) -> None:
    """An unknown model is NotFoundError; what iop or the engine cannot read is BadRequestError."""
    async with simulator() as url, stack(tmp_path, Engine(url)) as s, sdk(s) as client:
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.responses.create(model="nobody", input="hi")
        assert unknown.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as mine:
            await client.chat.completions.create(model=42, messages=MESSAGES)  # type: ignore[call-overload]
        assert mine.value.code == "missing_model"
        with pytest.raises(openai.BadRequestError) as engines:
            await client.chat.completions.create(model="m", messages=MESSAGES, max_tokens=-1, stream=True)
        assert engines.value.param == "max_tokens"
        assert engines.value.response.headers["x-iop-provider"] == "p1"


async def test_keys(tmp_path: Path) -> None:
    """A wrong key is AuthenticationError, a right one serves."""
    keys = {"api_keys": [{"name": "k", "sha256": hashlib.sha256(b"right").hexdigest()}]}
    async with simulator() as url, stack(tmp_path, Engine(url), auth=keys, checks_request=False) as s:
        async with sdk(s, "wrong") as client:
            with pytest.raises(openai.AuthenticationError) as caught:
                await client.chat.completions.create(model="m", messages=MESSAGES)
            assert caught.value.code == "invalid_api_key"
        async with sdk(s, "right") as client:
            assert (await client.chat.completions.create(model="m", messages=MESSAGES)).choices


async def _cut_in_mid_stream(exchange: Exchange) -> None:
    await exchange.send(stream_head() + chunk(DELTA) * 3)
    exchange.close()


async def test_a_cut_in_mid_stream_raises(tmp_path: Path) -> None:
    """Field case B14: the SDK raises in the middle of a cut chat stream and never sees it finished."""
    async with stack(tmp_path, Engine(_cut_in_mid_stream)) as s, sdk(s) as client:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        seen: list[Any] = []
        with pytest.raises(openai.APIError) as caught:
            await _read(stream, seen)
        assert len(seen) == 3
        assert caught.value.code == "upstream_broken"


async def test_a_cut_responses_stream_raises(tmp_path: Path) -> None:
    """Field case B14: a cut responses stream is seen as response.failed, and the SDK raises."""

    async def script(exchange: Exchange) -> None:
        created = {"id": "resp_1", "object": "response", "status": "in_progress", "output": [], "model": "m"}
        first = event({"type": "response.created", "sequence_number": 0, "response": created})
        await exchange.send(stream_head() + chunk(first))
        exchange.close()

    async with stack(tmp_path, Engine(script)) as s, sdk(s) as client:
        stream = await client.responses.create(model="m", input="hi", stream=True)
        seen: list[Any] = []
        with pytest.raises(openai.APIError):
            await _read(stream, seen)
        assert [piece.type for piece in seen] == ["response.created", "response.failed"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, openai.RateLimitError), (400, openai.BadRequestError), (503, openai.InternalServerError)],
)
async def test_an_engines_own_refusal_raises_its_class(tmp_path: Path, status: int, kind: type[Exception]) -> None:
    """Field case B20: with stream=true the engine's status decides the class of the error."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(response(status, b'{"error": {"message": "no", "code": "own"}}'))

    async with stack(tmp_path, Engine(script)) as s, sdk(s) as client:
        with pytest.raises(kind) as caught:
            await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        assert getattr(caught.value, "code", None) == "own"


async def test_an_error_as_the_first_event_raises(tmp_path: Path) -> None:
    """Field case B20: 200 whose first event is an error raises in the SDK."""

    async def script(exchange: Exchange) -> None:
        first = event({"error": {"message": "out of memory", "type": "server_error", "code": 500}})
        await exchange.send(stream_head() + chunk(first + event("[DONE]")) + LAST_CHUNK)

    async with stack(tmp_path, Engine(script)) as s, sdk(s) as client:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        with pytest.raises(openai.APIError, match="out of memory"):
            await _read(stream, [])
