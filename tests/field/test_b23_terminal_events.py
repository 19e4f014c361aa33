"""Field case B23: a responses stream has exactly one terminal event, and needs no [DONE]."""

from pathlib import Path

import pytest

from tests.fakes.fake_up import LAST_CHUNK, SSE, Exchange, Script, chunk, event, head, stream_head
from tests.fakes.skeleton import TERMINAL, read_events
from tests.fakes.stack import RESPONSES, Engine, stack

ASK = {"model": "m", "input": "hi", "stream": True}
RESPONSE = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
CREATED = event({"type": "response.created", "sequence_number": 0, "response": RESPONSE})
DELTA = event({"type": "response.output_text.delta", "sequence_number": 1, "output_index": 0, "delta": "x"})


def _terminal(kind: str, status: str) -> bytes:
    return event({"type": kind, "sequence_number": 2, "response": {**RESPONSE, "status": status}})


def _chunked(*events: bytes) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head() + b"".join(map(chunk, events)) + LAST_CHUNK)

    return script


def _closed(*events: bytes) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.send(head(200, SSE, version="1.0") + b"".join(events))
        exchange.close()

    return script


@pytest.mark.parametrize("sends", [_chunked, _closed])
@pytest.mark.parametrize(
    "end",
    [
        _terminal("response.completed", "completed"),
        _terminal("response.completed", "incomplete"),
        _terminal("response.incomplete", "incomplete"),
    ],
)
async def test_b23_a_terminal_event_suffices(tmp_path: Path, sends: object, end: bytes) -> None:
    """Field case B23 (a): completed, then the end, without [DONE], is a success and nothing is added."""
    assert callable(sends)
    async with stack(tmp_path, Engine(sends(CREATED, DELTA, end))) as s:
        answer = await s.post(ASK, RESPONSES)
        assert (answer.body, answer.cut) == (CREATED + DELTA + end, False)
        await s.idle()
        assert s.totals("completed", "failed") == (1, 0)


@pytest.mark.parametrize("sends", [_chunked, _closed])
async def test_b23_silence_is_not_an_end(tmp_path: Path, sends: object) -> None:
    """Field case B23 (b): deltas and a clean end: response.failed with the same id and the next number, counted."""
    assert callable(sends)
    async with stack(tmp_path, Engine(sends(CREATED, DELTA))) as s:
        answer = await s.post(ASK, RESPONSES)
        events = read_events(answer.body)
        assert sum(one.get("type") in TERMINAL for one in events) == 1
        failed = events[2]
        assert (failed["type"], failed["sequence_number"], failed["response"]["id"]) == ("response.failed", 2, "resp_1")
        assert events[3]["error"]["code"] == "upstream_broken"
        await s.idle()
        assert s.totals("completed", "failed") == (0, 1)


@pytest.mark.parametrize(
    "told",
    [
        event(
            {
                "type": "response.failed",
                "sequence_number": 2,
                "response": {**RESPONSE, "status": "failed", "error": {"code": "server_error", "message": "gone"}},
            }
        ),
        event({"type": "error", "sequence_number": 2, "message": "gone"}),
        event({"error": {"message": "gone", "type": "server_error"}}),
    ],
)
async def test_b23_an_engines_own_error_passes(tmp_path: Path, told: bytes) -> None:
    """Field case B23 (c): an error event passes as it is and counts as failed; there is one terminal event, which has
    the engine's words, and they stand in one error object.
    """
    async with stack(tmp_path, Engine(_chunked(CREATED, told))) as s:
        answer = await s.post(ASK, RESPONSES)
        assert answer.body.startswith(CREATED + told)
        events = read_events(answer.body)
        (last,) = [one for one in events if one.get("type") in TERMINAL]
        assert (last["type"], last["response"]["error"]["message"]) == ("response.failed", "gone")
        assert [one["error"]["message"] for one in events if "error" in one] == ["gone"] * (
            b"response.failed" not in told
        )
        await s.idle()
        assert s.totals("completed", "failed") == (0, 1)
