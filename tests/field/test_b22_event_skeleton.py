"""Field case B22: a streamed response has its whole, consistent event skeleton, whatever its engine left out."""

import json
from pathlib import Path

from tests.fakes.agents import python
from tests.fakes.fake_up import LAST_CHUNK, Exchange, Script, chunk, stream_head
from tests.fakes.skeleton import check_skeleton, read_events
from tests.fakes.stack import RESPONSES, Engine, answer_ok, stack

TEXT = {"type": "output_text", "text": "ab"}
MESSAGE = {"type": "message", "id": "msg_1", "content": [TEXT]}
CALLS = [{"type": "function_call", "call_id": f"fc_{n}", "name": n, "arguments": "{}"} for n in "xy"]
ASK = {"model": "m", "input": "hi", "stream": True}


def _bare() -> list[bytes]:
    """Text and two function calls as llama.cpp streams them: no number, no place, no output at the beginning."""
    begun = {"id": "resp_1", "status": "in_progress"}
    output = [MESSAGE, *CALLS]
    whole = {"id": "resp_1", "status": "completed", "output": output, "usage": {"total_tokens": 3}}
    events: list[tuple[str, dict[str, object]]] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
        ("response.output_item.added", {"item": {**MESSAGE, "content": []}}),
        ("response.content_part.added", {"item_id": "msg_1", "part": {"type": "output_text", "text": ""}}),
        ("response.output_text.delta", {"item_id": "msg_1", "delta": "a"}),
        ("response.output_text.delta", {"item_id": "msg_1", "delta": "b"}),
        ("response.content_part.done", {"item_id": "msg_1", "part": TEXT}),
        ("response.output_item.done", {"item": MESSAGE}),
    ]
    for call in CALLS:
        events += [
            ("response.output_item.added", {"item": {**call, "arguments": ""}}),
            ("response.function_call_arguments.delta", {"item_id": call["call_id"], "delta": "{}"}),
            ("response.output_item.done", {"item": call}),
        ]
    events.append(("response.completed", {"response": whole}))
    return [f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode() for kind, data in events]


def _sends(events: list[bytes], end: bytes = LAST_CHUNK) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head() + b"".join(map(chunk, events)) + end)
        if not end:
            exchange.close()

    return script


async def test_b22_text_and_two_calls_have_their_places(tmp_path: Path) -> None:
    """Field case B22: an engine without numbers and places; the client gets the whole skeleton."""
    async with stack(tmp_path, Engine(_sends(_bare()))) as s:
        answer = await s.post(ASK, RESPONSES)
        response, text = check_skeleton(answer.body)
        assert text == "ab"
        assert [item["type"] for item in response["output"]] == ["message", "function_call", "function_call"]
        await s.idle()
        assert s.totals("completed", "failed") == (1, 0)


async def test_b22_a_cut_goes_on_with_the_next_number(tmp_path: Path) -> None:
    """Field case B22: when such an engine is lost, the Edge's response.failed carries the number after the last one."""
    async with stack(
        tmp_path, Engine(_sends([*_bare()[:6], b'event: response.output_text.delta\ndata: {"ty'], b""))
    ) as s:
        answer = await s.post(ASK, RESPONSES)
        events = read_events(answer.body)
        assert [event["sequence_number"] for event in events[:-1]] == list(range(7))
        assert (events[-2]["type"], events[-2]["response"]["id"]) == ("response.failed", "resp_1")
        assert events[-1]["error"]["code"] == "upstream_broken"
        await s.idle()
        assert s.totals("completed", "failed") == (0, 1)


async def test_b22_an_agents_stream_has_it_too(tmp_path: Path) -> None:
    """Field case B22: the stream made from a CLI agent's text has the same skeleton."""
    program = python("import sys; sys.stdin.read(); print('one two', end='')")
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": program}) as s:
        answer = await s.post({**ASK, "model": "agent"}, RESPONSES)
        response, text = check_skeleton(answer.body)
        assert text == "one two" == response["output"][0]["content"][0]["text"]
