"""What a client makes of an answer: whole, cut, refused, an error in mid-stream, or left on purpose."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from smoke.client import Ask, Line, connect
from smoke.history import Request

CHAT = [
    b'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n',
    b': a comment\n\ndata: {"choices": [{"delta": {"content": "one "}}]}\n\n',
    b'data: {"choices": [{"delta": {"content": "two"}}]}\n\n',
]
DONE = b"data: [DONE]\n\n"
EVENTS = [
    b'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", "delta": "one"}\n\n',
    b'data: {"type": "response.incomplete"}\n\n',
]


@asynccontextmanager
async def answering(
    *pieces: bytes, status: int = 200, kind: str = "text/event-stream", hang: bool = False
) -> AsyncIterator[str]:
    """A server that answers every POST with these pieces; `hang` keeps the answer open until the client leaves."""

    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        headers = {"Content-Type": kind, "x-iop-provider": "a", "x-iop-queue-ms": "7"}
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        if hang:
            await asyncio.Event().wait()
        return response

    app = web.Application()
    app.router.add_post("/v1/{tail:.*}", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/v1"
    finally:
        await runner.cleanup()


def line(endpoint: str = "chat", *, stream: bool = True) -> Line:
    """A request under way."""
    return Line(Ask("case", "id-1", endpoint, "m", 8, stream=stream))  # type: ignore[arg-type]


async def asked(url: str, one: Line) -> Request:
    """Send one request and return its record."""
    async with connect(url) as client:
        return await client.send(one)


async def test_a_whole_stream_is_ok_with_its_words_and_headers() -> None:
    """Deltas are joined, comments skipped, the provider and its queue time read from the headers."""
    async with answering(*CHAT, DONE) as url:
        found = await asked(url, line())

    assert (found.outcome, found.error, found.text) == ("ok", None, "one two")
    assert (found.provider, found.queue_ms, found.node) == ("a", 7, None)


async def test_a_responses_stream_that_met_its_limit_is_ok() -> None:
    """`response.incomplete` is how a limit of tokens ends."""
    async with answering(*EVENTS) as url:
        found = await asked(url, line("responses"))

    assert (found.outcome, found.text) == ("ok", "one")


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
async def test_a_stream_without_its_last_event_is_failed(endpoint: str) -> None:
    """A cut is never a success (Field case B14)."""
    async with answering(*CHAT, EVENTS[0]) as url:
        found = await asked(url, line(endpoint))

    assert (found.outcome, found.error) == ("failed", "the answer ended without its last event")


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"error": {"message": "broken", "code": "upstream_broken"}}\n\n',
        b'data: {"type": "response.failed", "response": {}}\n\n',
        b"data: no json\n\n",
    ],
)
async def test_an_error_in_mid_stream_is_failed_although_done_follows(event: bytes) -> None:
    """What went wrong is kept in the record."""
    async with answering(*CHAT, event, DONE) as url:
        found = await asked(url, line())

    assert found.outcome == "failed"
    assert found.error


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("chat", b'{"choices": [{"message": {"content": "words"}}]}'),
        ("chat", b'{"choices": [{"message": {"content": null, "reasoning_content": "words"}}]}'),
        ("responses", b'{"output": [{"type": "message", "content": [{"type": "output_text", "text": "words"}]}]}'),
    ],
)
async def test_an_answer_that_is_not_streamed_is_read(endpoint: str, body: bytes) -> None:
    """Chat and Responses bodies, and a model that thought before it spoke."""
    async with answering(body, kind="application/json") as url:
        found = await asked(url, line(endpoint, stream=False))

    assert (found.outcome, found.text) == ("ok", "words")


@pytest.mark.parametrize(("status", "body"), [(503, b'{"error": {"code": "queue_timeout"}}'), (200, b"<html>")])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_or_a_strange_body_is_failed(status: int, body: bytes, stream: bool) -> None:
    """The status or the body is named; a refusal of a stream comes as JSON."""
    async with answering(body, status=status, kind="application/json") as url:
        found = await asked(url, line(stream=stream))

    assert (found.outcome, found.status) == ("failed", status)
    assert found.error


async def test_nobody_there_is_a_failed_request_and_no_exception() -> None:
    """A server that has gone is a record like any other."""
    async with answering() as url:
        pass
    found = await asked(url, line())

    assert (found.outcome, found.status) == ("failed", 0)
    assert found.error is not None
    assert found.error.startswith("ConnectError")


async def test_a_client_leaves_in_mid_stream_when_told_to() -> None:
    """`begun` comes with the first words; setting `leave` closes the connection and is recorded as left."""
    one = line()
    async with answering(*CHAT, hang=True) as url, asyncio.timeout(30), asyncio.TaskGroup() as group:
        task = group.create_task(asked(url, one))
        await one.begun.wait()
        one.leave.set()
        found = await task

    assert (found.outcome, found.error) == ("left", None)


def test_the_limit_has_the_name_of_its_endpoint() -> None:
    """`max_tokens` for chat, `max_output_tokens` for responses, none for an agent."""
    assert Ask("c", "i", "chat", "m", 8).body()["max_tokens"] == 8
    assert Ask("c", "i", "responses", "m", 8).body()["max_output_tokens"] == 8
    assert "max_tokens" not in Ask("c", "i", "chat", "m", None).body()


@pytest.mark.parametrize(
    "told",
    [
        b'{"error": {"message": "cut", "code": "upstream_unreachable"}}',
        b'{"type": "error", "code": "upstream_unreachable", "message": "cut"}',
        b'{"type": "response.failed", "response": {"error": {"code": "upstream_unreachable", "message": "cut"}}}',
    ],
    ids=["chat", "responses", "response"],
)
async def test_the_code_of_an_error_in_a_stream_is_kept(told: bytes) -> None:
    """Each form of an error event says which error it is; the first one counts, and a cut after it hides nothing."""
    async with answering(*CHAT, b"data: " + told + b"\n\n", b'data: {"error": {"code": "later"}}\n\n') as url:
        found = await asked(url, line())

    assert (found.outcome, found.code) == ("failed", "upstream_unreachable")
    assert "cut" in str(found.error)


@pytest.mark.parametrize(
    ("body", "code"), [(b'{"error": {"code": "queue_full"}}', "queue_full"), (b'["bad gateway"]', None)]
)
async def test_the_code_of_a_refusal_is_kept(body: bytes, code: str | None) -> None:
    """An answer that is no stream tells it in its body; one that is no object of ours has none."""
    async with answering(body, status=429, kind="application/json") as url:
        found = await asked(url, line())

    assert (found.outcome, found.status, found.code) == ("failed", 429, code)
