"""Streams that wait long: kept alive in line and during an engine's slow head, and told what goes wrong as events."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml

from iop.edge.admin_routes import DrainAsk
from iop.edge.refresh import RefreshAsk
from tests.fakes.agents import python
from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, response, stream_head
from tests.fakes.raw_client import Answer, RawClient, parse
from tests.fakes.stack import CHAT, RESPONSES, Engine, Stack, chat, encoded, stack

SOON = {"keepalive_after": "20ms"}
BEAT = b": keep-alive\n"
DELTA = b': pong\r\n\r\ndata: {"choices":[{"index":0,"delta":{"content":"x"}}]}\r\n\r\ndata: [DONE]\n\n'
COMPLETED = event({"type": "response.completed", "sequence_number": 0, "response": {"id": "r", "output": []}})
STREAMS = {CHAT: DELTA, RESPONSES: COMPLETED}


class Held:
    """An engine that says nothing until `go` is set, then what `script` says."""

    def __init__(self, said: bytes = stream_head() + chunk(DELTA) + LAST_CHUNK) -> None:
        self.go = asyncio.Event()
        self.said = said

    async def __call__(self, exchange: Exchange) -> None:
        await self.go.wait()
        await exchange.send(self.said)


def _ask(path: str = CHAT, **more: Any) -> bytes:
    body = {"model": "m", "stream": True, **more}
    return encoded(({"messages": []} if path == CHAT else {"input": "hi"}) | body)


async def _kept_alive(s: Stack, path: str = CHAT, **more: Any) -> RawClient:
    """A streaming client that waits and has had three comments."""
    client = await s.open(_ask(path, **more), path)
    await client.until(BEAT, 3)
    return client


def _after_the_comments(answer: Answer, own: bytes = rb": iop provider=p1 queue_ms=\d+\n") -> bytes:
    """What followed the comments of a stream that was opened early."""
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    assert answer.headers["x-request-id"].startswith("req_")
    assert not any(name.startswith("x-iop-") for name in answer.headers)
    begun = re.match(rb"(?:: keep-alive\n){3,}" + own, answer.body)
    assert begun is not None, answer.body
    return answer.body[begun.end() :]


def _errors(body: bytes) -> list[dict[str, Any]]:
    datas = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
    return [data["error"] for data in datas if data.get("error")]


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_a_stream_in_line_is_kept_alive_until_its_answer_begins(tmp_path: Path, path: str) -> None:
    """200 and comments while the slot is taken; then a comment that tells who answers, and the engine's own bytes."""
    engine = Held(stream_head() + chunk(STREAMS[path]) + LAST_CHUNK)
    async with stack(tmp_path, Engine(engine), stream=SOON) as s:
        first = await s.open()
        await s.until(lambda status: status["totals"]["in_flight"] == 1)
        waiting = await _kept_alive(s, path)
        assert s.load() == (1, 1)
        engine.go.set()
        answer = await waiting.answer()
        assert _after_the_comments(answer) == STREAMS[path]
        assert not answer.cut
        assert (await first.answer()).status == 200
        await s.idle()
        assert s.totals("received", "admitted", "completed", "failed") == (2, 2, 2, 0)


async def test_a_slow_head_is_covered_by_the_same_clock(tmp_path: Path) -> None:
    """Comments during the engine's silence before its status; none once the answer has begun, however it then waits."""
    rest = asyncio.Event()
    engine = Held(stream_head() + chunk(DELTA[:20]))

    async def script(exchange: Exchange) -> None:
        await engine(exchange)
        await rest.wait()
        await exchange.send(chunk(DELTA[20:]) + LAST_CHUNK)

    async with stack(tmp_path, Engine(script, capacity=2), stream=SOON) as s:
        client = await _kept_alive(s)
        engine.go.set()
        await client.until(DELTA[:20])
        await _kept_alive_elsewhere(s, engine)
        rest.set()
        assert _after_the_comments(await client.answer()) == DELTA


async def _kept_alive_elsewhere(s: Stack, engine: Held) -> None:
    """Let three times `keepalive_after` pass, as another client of the same Edge sees it; that client leaves."""
    engine.go.clear()
    other = await _kept_alive(s)
    other.close()
    await s.until(lambda status: status["totals"]["cancelled"] == 1)


async def test_an_agent_that_thinks_is_kept_alive(tmp_path: Path) -> None:
    """The direct route has the same clock; the comment names the node."""
    flag = tmp_path / "go"
    program = (
        f"import os,sys,time; sys.stdin.read()\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.02)\nprint('hey')"
    )
    async with stack(tmp_path, Engine(Held()), agents={"agent": python(program)}, stream=SOON) as s:
        client = await s.open(chat("hi", model="agent", stream=True))
        await client.until(BEAT, 3)
        flag.touch()
        rest = _after_the_comments(await client.answer(), rb": iop node=n1\n")
        assert b'"hey' in rest
        assert rest.endswith(b"data: [DONE]\n\n")


async def test_it_goes_on_through_a_return_to_the_line(tmp_path: Path) -> None:
    """The first engine dies without a status; the stream stays open, and the second one answers into it."""
    die = asyncio.Event()

    async def dying(exchange: Exchange) -> None:
        await die.wait()
        exchange.reset()

    second = Held()
    async with stack(tmp_path, Engine(dying), Engine(second), stream=SOON) as s:
        client = await _kept_alive(s)
        if s.ups[1].requests:  # which provider is asked first is not the matter here
            s.ups[0].script, s.ups[1].script = second, dying
        die.set()
        await s.until(lambda status: status["totals"]["returned"] == 1 or second.go.set())
        second.go.set()
        rest = _after_the_comments(await client.answer(), rb": iop provider=p[12] queue_ms=\d+\n")
        assert rest == DELTA


@pytest.mark.parametrize(("path", "own"), [(CHAT, []), (RESPONSES, ["response.failed"])])
async def test_a_deadline_is_an_event_for_streams_and_a_503_for_others(tmp_path: Path, path: str, own: list) -> None:
    """queue_timeout: a stream that is open gets the error and the end of its API, anybody else the real status."""
    engine = Held()
    async with stack(tmp_path, Engine(engine), stream=SOON, queue={"max_wait": "300ms"}) as s:
        first = await s.open()
        await s.until(lambda status: status["totals"]["in_flight"] == 1)
        clients = [await s.open(_ask(path), path), await s.open(_ask(path, stream=False), path)]
        streamed, whole = [await client.answer() for client in clients]
        assert (whole.status, whole.code, "retry-after" in whole.headers) == (503, "queue_timeout", True)
        assert streamed.cut is (path == CHAT)
        rest = _after_the_comments(streamed, b"")
        assert [error["code"] for error in _errors(rest)][-1] == "queue_timeout"
        assert re.findall(rb"event: (.*)", rest) == [name.encode() for name in own]
        assert b"[DONE]" not in rest
        assert s.totals("expired", "refused") == (2, 0)
        engine.go.set()
        await first.answer()


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize(
    ("said", "told", "counted"),
    [
        (response(429, b'{"error":{"message":"slow down","type":"tokens","code":"own","param":"p"}}'),
         {"message": "slow down", "type": "tokens", "param": "p", "code": "own"}, "completed"),
        (response(400, b'{"object":"error","message":"too long","type":"BadRequestError","code":400}'),
         {"message": "too long", "type": "BadRequestError", "param": None, "code": "400"}, "completed"),
        (response(500, b"Internal Server Error", [("Content-Type", "text/plain")]),
         {"message": "Internal Server Error", "type": "server_error", "param": None, "code": "upstream_broken"},
         "failed"),
    ],
    ids=["429", "400", "500"],
)  # fmt: skip
async def test_a_late_error_answer_is_an_event_with_the_engines_words(
    tmp_path: Path, path: str, said: bytes, told: dict[str, Any], counted: str
) -> None:
    """An engine's status that comes too late becomes an event, ends as a whole answer does, and counts as it would."""
    engine = Held(said)
    async with stack(tmp_path, Engine(engine), stream=SOON) as s:
        client = await _kept_alive(s, path)
        engine.go.set()
        answer = await client.answer()
        assert not answer.cut
        assert _errors(_after_the_comments(answer))[-1] == told
        assert s.totals(counted) == (1,)


async def test_a_late_answer_that_is_no_stream_is_an_error(tmp_path: Path) -> None:
    """An engine that ignored `stream` and answered JSON: told as an error and cut, counted as the engine ended."""
    engine = Held(response(200, b'{"object": "chat.completion", "choices": []}'))
    async with stack(tmp_path, Engine(engine), stream=SOON) as s:
        client = await _kept_alive(s)
        engine.go.set()
        answer = await client.answer()
        assert answer.cut
        assert [error["code"] for error in _errors(_after_the_comments(answer))] == ["upstream_broken"]
        assert s.totals("completed", "failed") == (1, 0)


async def test_a_client_that_leaves_during_its_comments_leaves_the_line(tmp_path: Path) -> None:
    """Abandoned at once; no engine sees it."""
    engine = Held()
    async with stack(tmp_path, Engine(engine), stream=SOON) as s:
        first = await s.open()
        await s.until(lambda status: status["totals"]["in_flight"] == 1)
        waiting = await _kept_alive(s)
        waiting.reset()
        await s.until(lambda status: status["totals"]["abandoned"] == 1)
        assert s.load() == (1, 0)
        engine.go.set()
        await first.answer()
        assert len(s.up.requests) == 1


async def test_a_comment_is_not_the_answers_first_byte(tmp_path: Path) -> None:
    """The body of a stream that is kept alive still counts against queue.max_bytes."""
    engine = Held()
    async with stack(tmp_path, Engine(engine), stream=SOON, queue={"max_bytes": "1MiB"}) as s:
        client = await _kept_alive(s, messages=[{"role": "user", "content": "x" * 900_000}])
        full = await s.post(_ask(messages=[{"role": "user", "content": "x" * 200_000}]))
        assert (full.status, full.code) == (429, "queue_full")
        engine.go.set()
        _after_the_comments(await client.answer())


async def test_shutting_down_is_an_event(tmp_path: Path) -> None:
    """At drain_timeout those in line and those with an engine are told `shutting_down` in their open streams."""
    async with stack(tmp_path, Engine(Held()), stream=SOON, checks_request=False) as s:
        clients = [await _kept_alive(s), await _kept_alive(s, RESPONSES)]
        await s.edge.drain()
        for client, is_cut in zip(clients, (True, False), strict=True):
            await client.ended()
            answer = parse(bytes(client.seen))
            assert answer.cut is is_cut
            assert _errors(_after_the_comments(answer, b""))[-1]["code"] == "shutting_down"
        assert s.totals("failed", "expired") == (1, 1)


async def test_a_drain_and_a_resize_change_nothing_for_it(tmp_path: Path) -> None:
    """In line behind a drain it stays open; the slot of a resize is handed to it."""
    engine = Held()
    async with stack(tmp_path, Engine(engine), stream=SOON) as s:
        s.edge._core.drain("n1", DrainAsk(60, None, None))
        clients = [await _kept_alive(s), await _kept_alive(s)]
        s.edge._core.undrain("n1")
        await s.until(lambda status: (status["totals"]["in_flight"], status["totals"]["queued"]) == (1, 1))
        path = tmp_path / "edge.yaml"
        config = yaml.safe_load(path.read_text())
        config["nodes"][0]["providers"][0]["capacity"] = 2
        config["nodes"][0]["adapters"]["openai_compat_instances"][0]["capacity"] = 2
        reply = await s.edge._core.refresh(RefreshAsk("apply", yaml.safe_dump(config), str(path)))
        assert reply.status == 200, reply.body
        await s.until(lambda status: status["totals"]["in_flight"] == 2)
        engine.go.set()
        assert [_after_the_comments(await client.answer()) for client in clients] == [DELTA, DELTA]


async def test_the_sdk_reads_over_the_comments(tmp_path: Path) -> None:
    """Chat and responses of the official SDK see the engine's events only."""
    engine = Held()
    async with stack(tmp_path, Engine(engine), stream=SOON) as s, _sdk(s) as client:
        chat_stream = await client.chat.completions.create(model="m", messages=[], stream=True)  # returns: it is open
        engine.go.set()
        assert [piece.choices[0].delta.content async for piece in chat_stream] == ["x"]
        await s.idle()
        engine.go.clear()
        engine.said = stream_head() + chunk(COMPLETED) + LAST_CHUNK
        stream = await client.responses.create(model="m", input="hi", stream=True)
        engine.go.set()
        assert [piece.type async for piece in stream] == ["response.completed"]


async def test_the_sdk_raises_what_an_open_stream_tells(tmp_path: Path) -> None:
    """The engine's late 429 raises with its message and code; so does a deadline."""
    engine = Held(response(429, b'{"error":{"message":"slow down","type":"tokens","code":"own"}}'))
    async with stack(tmp_path, Engine(engine), stream=SOON, queue={"max_wait": "400ms"}) as s, _sdk(s) as client:
        streams = [await client.chat.completions.create(model="m", messages=[], stream=True)]
        streams.append(await client.responses.create(model="m", input="hi", stream=True))
        with pytest.raises(openai.APIError) as expired:
            _ = [piece async for piece in streams[1]]
        assert expired.value.code == "queue_timeout"
        engine.go.set()
        with pytest.raises(openai.APIError, match="slow down") as late:
            _ = [piece async for piece in streams[0]]
        assert (late.value.code, late.value.type) == ("own", "tokens")


def _sdk(s: Stack) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=s.base_url, api_key="none", max_retries=0, timeout=20)


async def test_no_comment_for_those_who_did_not_ask_for_a_stream(tmp_path: Path) -> None:
    """A whole answer is the engine's alone, however long it took beside a stream that was kept alive."""
    engine = Held(response(418, b'{"error": "teapot"}'))
    async with stack(tmp_path, Engine(engine, capacity=2), stream=SOON) as s:
        whole = await s.open()
        await _kept_alive(s)
        engine.go.set()
        answer = await whole.answer()
        assert (answer.status, answer.body) == (418, b'{"error": "teapot"}')
        assert answer.headers["x-iop-provider"] == "p1"
