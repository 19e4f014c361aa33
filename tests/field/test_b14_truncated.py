"""Field case B14: a truncated answer is never a success."""

import json
from pathlib import Path

import pytest

from tests.fakes.fake_up import JSON, SSE, Exchange, Script, chunk, event, head, stream_head
from tests.fakes.stack import CHAT, RESPONSES, Engine, chat, stack

DELTA = event({"choices": [{"index": 0, "delta": {"content": "x"}}]})
CREATED = event({"type": "response.created", "sequence_number": 0, "response": {"id": "resp_7", "model": "m"}})
PIECE = event({"type": "response.output_text.delta", "sequence_number": 4, "delta": "x"})


def _stream(*events: bytes, reset: bool = False) -> Script:
    """Make a chunked stream that ends without its last chunk."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head())
        for one in events:
            await exchange.send(chunk(one))
        (exchange.reset if reset else exchange.close)()

    return script


async def _close_delimited(exchange: Exchange) -> None:
    await exchange.send(head(200, SSE, version="1.0") + DELTA * 3)
    exchange.close()


async def _too_short(exchange: Exchange) -> None:
    await exchange.send(head(200, (*JSON, ("Content-Length", "500"))) + b'{"choices": []}')
    exchange.close()


async def _half_json(exchange: Exchange) -> None:
    await exchange.send(head(200, JSON, version="1.0") + b'{"choices": [{"mess')
    exchange.close()


@pytest.mark.parametrize("script", [_stream(*[DELTA] * 3), _stream(*[DELTA] * 3, reset=True), _close_delimited])
async def test_b14_a_cut_chat_stream_ends_with_an_error_and_visibly(tmp_path: Path, script: Script) -> None:
    """Field case B14: the deltas pass, then one error object, no [DONE], and an abnormal end; counted as failed."""
    async with stack(tmp_path, Engine(script)) as s:
        answer = await s.post(chat(stream=True))
        assert answer.cut
        assert answer.body.startswith(DELTA * 3)
        rest = answer.body.removeprefix(DELTA * 3)
        assert rest.count(b"data:") == 1
        assert json.loads(rest.removeprefix(b"data:"))["error"]["code"] == "upstream_broken"
        await s.idle()
        assert s.totals("completed", "failed") == (0, 1)


async def test_b14_a_cut_inside_an_event_is_no_text_and_no_success(tmp_path: Path) -> None:
    """Field case B14: an event cut in its middle reaches the client as an error, whatever it looked like so far."""
    async with stack(tmp_path, Engine(_stream(DELTA, b'data: {"choices": [{"delta": {"cont'))) as s:
        answer = await s.post(chat(stream=True))
        events = [json.loads(part.removeprefix(b"data:")) for part in answer.body.strip().split(b"\n\n")]
        assert "error" in events[-1]
        assert answer.cut
        await s.idle()
        assert s.totals("failed") == (1,)


async def test_b14_a_cut_responses_stream_ends_with_response_failed(tmp_path: Path) -> None:
    """Field case B14: exactly one terminal event, with the stream's id and next number, then the error object."""
    async with stack(tmp_path, Engine(_stream(CREATED, PIECE))) as s:
        answer = await s.post({"model": "m", "input": "hi", "stream": True}, RESPONSES)
        assert not answer.cut  # the event tells it; Codex shows it only when the transfer ends properly
        parts = answer.body.strip().split(b"\n\n")[2:]
        failed, error = (json.loads(part.partition(b"data: ")[2]) for part in parts)
        assert (failed["type"], failed["sequence_number"], failed["response"]["id"]) == ("response.failed", 5, "resp_7")
        assert failed["response"]["status"] == "failed"
        assert error["error"]["code"] == "upstream_broken"


async def _long_and_cut(exchange: Exchange) -> None:
    await exchange.send(head(200, (*JSON, ("Content-Length", "4000000"))) + b'{"choices": ["' + b"x" * 3_000_000)
    exchange.close()


async def test_b14_a_long_answer_that_is_cut_ends_visibly(tmp_path: Path) -> None:
    """Field case B14: an answer too long to be held back, so that its 200 is out, ends without its last chunk."""
    async with stack(tmp_path, Engine(_long_and_cut)) as s:
        answer = await s.post()
        assert (answer.status, answer.cut) == (200, True)
        await s.idle()
        assert s.totals("completed", "failed") == (0, 1)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize("script", [_too_short, _half_json])
async def test_b14_a_short_body_is_a_502(tmp_path: Path, script: Script, path: str) -> None:
    """Field case B14: a non-streamed answer that is not whole becomes an error, never half an answer."""
    async with stack(tmp_path, Engine(script)) as s:
        answer = await s.post({"model": "m", "messages": [], "input": "hi"}, path)
        assert (answer.status, answer.code) == (502, "upstream_broken")
        assert not answer.cut
        await s.idle()
        assert s.totals("completed", "failed") == (0, 1)
