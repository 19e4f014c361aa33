"""Answers passed on: held until whole, streamed as they come, and cuts that look like cuts."""

import asyncio
import json
from collections.abc import Sequence

import aiohttp
import pytest

from iop.link.messages import End, Head
from tests.fakes.edge_under_test import EdgeUnderTest
from tests.fakes.link_peers import FakeNode

SSE = (("content-type", "text/event-stream"),)
JSON = (("content-type", "application/json"),)
TOKEN = b'data: {"choices":[{"delta":{"content":"\xed\x95\x9c"}}]}\r\n\r\n'


async def _ask(
    edge: EdgeUnderTest, node: FakeNode, path: str, headers: Sequence[tuple[str, str]]
) -> tuple[asyncio.Future[aiohttp.ClientResponse], int]:
    stream = headers is SSE
    waiting = asyncio.ensure_future(edge.post(path, body={"model": "m", "stream": stream}))
    run = await edge.run(node)
    node.send(Head(run=run.run, status=200, headers=tuple(headers)))
    return waiting, run.run


async def _until_cut(answer: aiohttp.ClientResponse) -> bytes:
    """Read an answer that must end abnormally; return what came before the cut."""
    got = b""
    try:
        async for piece in answer.content.iter_any():
            got += piece
    except aiohttp.ClientPayloadError:
        return got
    finally:
        answer.close()
    raise AssertionError("the stream ended as if it were whole")


async def test_a_stream_passes_byte_for_byte(edge: EdgeUnderTest) -> None:
    """Field case B13: one byte at a time, CRLF and split characters kept; the end is a proper end."""
    node = await edge.node()
    waiting, run = await _ask(edge, node, "/v1/chat/completions", SSE)
    sent = b": ping\n\n" + TOKEN + b"data: [DONE]\n\n"
    for n in range(len(sent)):
        node.send_body(run, sent[n : n + 1])
    node.send(End(run=run, outcome="completed"))
    answer = await waiting

    assert await answer.read() == sent
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["x-iop-provider"] == "p1"
    await node.close()


async def test_a_cut_chat_stream_tells_an_error_and_no_done(edge: EdgeUnderTest) -> None:
    """Field case B14: the client gets an error object and an abnormal end."""
    node = await edge.node()
    waiting, run = await _ask(edge, node, "/v1/chat/completions", SSE)
    node.send_body(run, TOKEN)
    node.send(End(run=run, outcome="failed", failure="broken", detail="the engine closed"))
    got = await _until_cut(await waiting)
    events = [line[6:] for line in got.decode().splitlines() if line.startswith("data: ")]

    assert got.startswith(TOKEN)
    assert json.loads(events[-1])["error"]["code"] == "upstream_broken"
    assert b"[DONE]" not in got
    assert edge.status()["totals"]["failed"] == 1
    await node.close()


async def test_a_node_that_is_lost_after_the_last_event_cuts_nothing(edge: EdgeUnderTest) -> None:
    """A client that reads to the end of the transfer, as the SDK for Python does, must see a proper one."""
    node = await edge.node()
    waiting, run = await _ask(edge, node, "/v1/chat/completions", SSE)
    sent = TOKEN + b"data: [DONE]\n\n"
    node.send_body(run, sent)
    answer = await waiting

    assert await answer.content.readexactly(len(sent)) == sent
    await node.close()
    assert await answer.read() == b""
    assert edge.status()["totals"]["completed"] == 1


async def test_a_cut_responses_stream_gets_its_terminal_event(edge: EdgeUnderTest) -> None:
    """Exactly one terminal event arrives, with the stream's own id and its next number; then a proper end."""
    node = await edge.node()
    waiting, run = await _ask(edge, node, "/v1/responses", SSE)
    created = {"type": "response.created", "sequence_number": 0, "response": {"id": "resp_7", "status": "in_progress"}}
    node.send_body(run, f"event: response.created\ndata: {json.dumps(created)}\n\n".encode())
    node.send(End(run=run, outcome="failed", failure="timeout"))
    got = await (await waiting).read()
    events = [json.loads(line[6:]) for line in got.decode().splitlines() if line.startswith("data: ")]
    failed = [e for e in events if e.get("type") == "response.failed"]

    assert [(e["response"]["id"], e["sequence_number"]) for e in failed] == [("resp_7", 1)]
    assert events[-1]["error"]["code"] == "upstream_timeout"
    await node.close()


async def test_an_engines_own_error_event_passes_and_ends_properly(edge: EdgeUnderTest) -> None:
    """The engine told its failure itself: its bytes pass, the stream ends, the outcome is failed."""
    node = await edge.node()
    waiting, run = await _ask(edge, node, "/v1/chat/completions", SSE)
    sent = b'data: {"error":{"message":"EngineCore died","code":500}}\n\ndata: [DONE]\n\n'
    node.send_body(run, sent)
    node.send(End(run=run, outcome="failed", failure="error_event"))

    assert await (await waiting).read() == sent
    assert edge.status()["totals"]["failed"] == 1
    await node.close()


async def test_a_cut_whole_answer_is_a_502(edge: EdgeUnderTest) -> None:
    """Half a JSON answer is never passed on as one."""
    node = await edge.node()
    waiting, run = await _ask(edge, node, "/v1/chat/completions", JSON)
    node.send_body(run, b'{"choices": [')
    node.send(End(run=run, outcome="failed", failure="broken"))
    answer = await waiting

    assert (answer.status, (await answer.json())["error"]["code"]) == (502, "upstream_broken")
    await node.close()


async def test_an_engines_500_is_its_answer(edge: EdgeUnderTest) -> None:
    """Field case B20: a status the engine sent is the answer, also when streaming was asked for."""
    node = await edge.node()
    waiting = asyncio.ensure_future(edge.post(body={"model": "m", "stream": True}))
    run = await edge.run(node)
    node.send(Head(run=run.run, status=503, headers=(*JSON, ("retry-after", "9"))))
    node.send_body(run.run, b'{"error":"overloaded"}')
    node.send(End(run=run.run, outcome="failed", failure="status"))
    answer = await waiting

    assert (answer.status, await answer.read()) == (503, b'{"error":"overloaded"}')
    assert answer.headers["retry-after"] == "9"
    await node.close()


@pytest.mark.parametrize("whole", [True, False])
async def test_long_answers_pass_as_they_come(edge: EdgeUnderTest, whole: bool) -> None:
    """Beyond 1 MiB nothing is held back; a cut of it ends the connection without its last chunk."""
    node = await edge.node()
    waiting, run = await _ask(edge, node, "/v1/chat/completions", JSON)
    piece = b"x" * 60_000
    sent = 0
    while not waiting.done():
        node.send_body(run, piece)
        sent += len(piece)
        await asyncio.sleep(0)
        assert sent < 50_000_000
    node.send(End(run=run, outcome="completed" if whole else "failed", failure=None if whole else "broken"))
    answer = await waiting
    if whole:
        assert len(await answer.read()) == sent
    else:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    await node.close()
