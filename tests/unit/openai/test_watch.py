"""Streams that pass by are judged rightly, and a failure reaches the client wherever the stream was cut."""

import json

import pytest

from iop.domain.errors import UpstreamError
from iop.openai import sse, watch
from iop.openai.chat_stream import ChatStream
from iop.openai.responses_stream import ResponsesStream
from iop.openai.sse import SSEParser
from iop.openai.watch import StreamWatch

ERROR = UpstreamError("The engine broke off.", code="upstream_broken")
OBJECT = {"message": "The engine broke off.", "type": "server_error", "param": None, "code": "upstream_broken"}


def chat(*, finish=True):
    """A chat stream, whole or without its end."""
    stream = ChatStream("chatcmpl-1", "m", 7, include_usage=True)
    whole = stream.start() + stream.delta('say "error" 模😀 [DONE] and response.failed') + stream.delta("x")
    return whole + (stream.finish() if finish else b"")


def responses(*, finish=True):
    """A responses stream, whole or without its end."""
    stream = ResponsesStream("resp_1", "m", 7)
    whole = stream.start() + stream.delta('say "error" 模😀 response.completed') + stream.delta("x")
    return whole + (stream.finish() if finish else b"")


def watched(operation, data, size=10_000):
    """A watch that has seen `data` in pieces of `size` bytes."""
    seen = StreamWatch(operation, request_id="r1", model="m", created=7)
    for at in range(0, len(data), size):
        seen.feed(data[at : at + size])
    return seen


def read(data):
    """Read a stream as a strict client: every event is JSON or [DONE]."""
    events = SSEParser().feed(data)
    return [event.data if event.data == "[DONE]" else json.loads(event.data) for event in events]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize(("operation", "make"), [("chat.completions", chat), ("responses", responses)])
def test_a_whole_stream_ends_well(operation, make, line_end, size):
    """B13, B16, B18, B23(a): any cut and line end; text that looks like a mark is text; [DONE] is not required."""
    seen = watched(operation, make().replace(b"\n", line_end), size)
    assert (seen.begun, seen.terminal, seen.error) == (True, True, False)
    assert seen.finished_well(close_delimited=True)
    assert seen.ending(ERROR) == b""
    half = watched(operation, make(finish=False).replace(b"\n", line_end), size)
    assert (half.begun, half.terminal, half.error) == (True, False, False)
    assert not half.finished_well(close_delimited=True)


def test_chat_without_done():
    """A chat stream of proper length may leave out [DONE]; an empty one, or one cut within an event, is no answer."""
    assert watched("chat.completions", chat(finish=False)).finished_well(close_delimited=False)
    assert not StreamWatch("chat.completions").finished_well(close_delimited=False)
    assert not watched("chat.completions", b": ping\n\n").finished_well(close_delimited=False)
    assert not watched("chat.completions", chat()[:-40]).finished_well(close_delimited=False)
    assert watched("chat.completions", chat()[:-1]).finished_well(close_delimited=True)


def test_responses_need_a_terminal_event():
    """B23(b): deltas and a clean end are a failure; what a terminal event says counts."""
    assert not watched("responses", responses(finish=False)).finished_well(close_delimited=False)
    for kind, status, well in [
        ("response.completed", "completed", True),
        ("response.completed", "incomplete", True),
        ("response.completed", "failed", False),
        ("response.incomplete", "incomplete", True),
        ("response.failed", "failed", False),
    ]:
        data = json.dumps({"type": kind, "response": {"id": "r", "status": status, "error": None}}).encode()
        for event in (b"data: " + data + b"\n\n", b"event: " + kind.encode() + b"\ndata:" + data + b"\n\n"):
            seen = watched("responses", event)
            assert seen.terminal
            assert seen.finished_well(close_delimited=False) is well
            assert seen.ending(ERROR) == b""


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"error":{"message":"EngineCore encountered an issue","type":"InternalServerError","code":500}}\n\n',
        b'data: {"error": "text"}\n\n',
        b'event: error\ndata: {"type":"error","message":"x"}\n\n',
        b"event:error\r\ndata: gone\r\n\r\n",
        b'data: {"type":"error","message":"x"}\n\n',
        b'data: {"object":"error","message":"x","code":500}\n\n',
    ],
)
@pytest.mark.parametrize("operation", ["chat.completions", "responses"])
def test_an_engines_own_error_is_a_failure(operation, event):
    """B20, B23(c): an error as the first event or later, also when [DONE] follows, is no success."""
    start = chat(finish=False) if operation == "chat.completions" else responses(finish=False)
    for data in (event, start + event, start + event + b"data: [DONE]\n\n"):
        seen = watched(operation, data)
        assert seen.error
        assert not seen.finished_well(close_delimited=False)
        told = read(seen.ending(ERROR))
        kinds = [each.get("type", "error") for each in told]
        again = [] if b'{"error"' in event else ["error"]  # SDKs raise only on this form
        assert kinds == ([] if operation == "chat.completions" else ["response.failed", *again])


@pytest.mark.parametrize(
    ("event", "failed", "again"),
    [
        (
            b'data: {"error":{"message":"out of memory","type":"InternalServerError","param":null,"code":500}}\n\n',
            {"message": "out of memory", "type": "InternalServerError", "code": "500"},
            None,
        ),
        (b'data: {"error":"gone"}\n\n', {"message": "gone", "code": "upstream_broken"}, None),
        (b'data: {"error":{"details":{}}}\n\n', {"message": OBJECT["message"], "code": "upstream_broken"}, None),
        (
            b'data: {"error":{"message":"first"}}\n\ndata: {"error":{"message":"second"}}\n\n',
            {"message": "first", "code": "upstream_broken"},
            None,
        ),
        (
            b'event: error\ndata: {"type":"error","sequence_number":9,"code":"c","message":"m","param":"p"}\n\n',
            {"message": "m", "code": "c"},
            {"message": "m", "type": "server_error", "param": "p", "code": "c"},
        ),
        (
            b'data: {"type":"error","error":null,"message":"m"}\n\n',
            {"message": "m", "code": "upstream_broken"},
            {**OBJECT, "message": "m"},
        ),
        (
            b"event: error\ndata: no more\n\n",
            {"message": "no more", "code": "upstream_broken"},
            {**OBJECT, "message": "no more"},
        ),
        (
            b'data: {"object":"error","message":"' + b"x" * 2001 + b'","type":"T"}\n\n',
            {"message": "x" * 1999 + "…", "type": "T", "code": "upstream_broken"},
            {**OBJECT, "message": "x" * 1999 + "…", "type": "T"},
        ),
    ],
)
def test_response_failed_has_the_engines_own_words(event, failed, again):
    """Message, type and code are the engine's where it has them; they are told again only where no SDK would raise."""
    told = read(watched("responses", responses(finish=False) + event).ending(ERROR))
    assert told[0]["type"] == "response.failed"
    assert told[0]["response"]["error"] == failed
    assert told[1:] == ([] if again is None else [{"error": again}])


@pytest.mark.parametrize(
    "data",
    [
        b'{"error":null,"choices":[]}',
        b'{"choices":[{"delta":{"content":"\\"error\\""},"finish_reason":null}]}',
        b'{"choices":[{"logprobs":{"content":[{"token":"error"}]}}],"object":["error"],"type":{}}',
        b'{"usage":{"prompt_tokens":1}}',
        b'[{"error":1}]',
        b'"error"',
    ],
)
def test_what_is_no_error(data):
    """B18: null errors, the word in text, odd types, no or empty choices: none of them is a failure or a crash."""
    for operation in ("chat.completions", "responses"):
        assert not watched(operation, b"data: " + data + b"\n\n").error


def test_finish_reason_error():
    """A choice that ends with the reason `error` is a failure told by the engine."""
    assert watched("chat.completions", b'data: {"choices":[{"delta":{},"finish_reason":"error"}]}\n\n').error


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_chat_cut_anywhere(line_end):
    """B14: after a cut at any byte every event is JSON, the last one is the error object, and no [DONE] comes."""
    whole = chat().replace(b"\n", line_end)
    end = whole.index(b"data: [DONE]")
    for cut in range(end + len(b"data: ") + 1):
        seen = watched("chat.completions", whole[:cut])
        events = read(whole[:cut] + seen.ending(ERROR))
        assert events[-1]["error"] == OBJECT, whole[:cut]
        assert "[DONE]" not in events
        assert [each for each in events[:-1] if "error" in each] == []


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_responses_cut_anywhere(line_end):
    """B14, B23: after a cut at any byte there is exactly one terminal event, numbers rise, the error object is last."""
    whole = responses().replace(b"\n", line_end)
    for cut in range(0, len(whole) + 1, 1 if line_end == b"\n" else 3):
        seen = watched("responses", whole[:cut])
        text = whole[:cut] + seen.ending(ERROR)
        events = SSEParser().feed(text)
        data = [json.loads(each.data) for each in events]
        terminal = [each for each in data if each.get("type") in watch._TERMINAL]
        assert len(terminal) == 1, whole[:cut]
        numbers = [each["sequence_number"] for each in data if "error" not in each]
        assert numbers == list(range(len(numbers)))
        for event, each in zip(events, data, strict=True):
            assert event.event == each.get("type")
        if terminal[0]["type"] == "response.failed":
            assert data[-1]["error"] == OBJECT
            assert terminal[0]["response"]["status"] == "failed"
            assert terminal[0]["response"]["error"] == {"code": "upstream_broken", "message": OBJECT["message"]}
            assert terminal[0]["response"]["id"] == ("resp_1" if len(numbers) > 1 else "resp_r1")


def test_numbers_and_ids_of_the_stream_are_taken_over():
    """The failure carries the stream's own id, model and next number, wherever its numbers started."""
    seen = watched(
        "responses", b'data: {"type":"response.created","sequence_number":1,"response":{"id":"r9","model":"e"}}\n\n'
    )
    seen.feed(b'data: {"type":"response.output_text.delta","delta":"x", "sequence_number" : 41}\n\n')
    assert seen.response_id == "r9"
    assert seen.next_sequence_number == 42
    failed = read(seen.ending(ERROR))[0]
    assert (failed["sequence_number"], failed["response"]["id"], failed["response"]["model"]) == (42, "r9", "e")


def test_a_whole_event_without_its_empty_line_is_kept():
    """A terminal event that lacks only its empty line is given to the client, and nothing else."""
    whole = responses()
    seen = watched("responses", whole[:-1])
    assert not seen.finished_well(close_delimited=True)
    assert seen.ending(ERROR) == b"\n"


def test_token_chunks_are_not_read_as_json(monkeypatch):
    """The cost of a token chunk is a search for marks: only the first event and the last ones are parsed."""
    calls = []
    monkeypatch.setattr(watch, "parse_event", lambda piece: calls.append(1) or sse.parse_event(piece))
    stream = ChatStream("c", "m", 7)
    watched("chat.completions", stream.start() + stream.delta("word") * 500 + stream.finish())
    assert len(calls) == 2
    calls.clear()
    events = ResponsesStream("r", "m", 7)
    watched("responses", events.start() + b"".join(events.delta("word") for _ in range(500)))
    assert len(calls) == 2


def test_an_oversized_event_passes(monkeypatch):
    """An event beyond the bound passes unread; the stream's end is still seen, and a failure within it still told."""
    monkeypatch.setattr(watch, "EventSplitter", lambda: sse.EventSplitter(max_event=2000))
    big = b'data: {"x":"' + b"y" * 5000
    seen = watched("chat.completions", big + b'"}\n\n' + chat(), size=500)
    assert seen.finished_well(close_delimited=True)
    cut = watched("chat.completions", big, size=500)
    assert json.loads(SSEParser().feed(big + cut.ending(ERROR))[-1].data) == {"error": OBJECT}


def test_what_came_with_an_oversized_event_is_noted(monkeypatch):
    """Events of the same bytes as the beginning of one beyond the bound are not overlooked."""
    monkeypatch.setattr(watch, "EventSplitter", lambda: sse.EventSplitter(max_event=2000))
    seen = watched("chat.completions", b'data: {"error":{"message":"x"}}\n\ndata: {"x":"' + b"y" * 5000)
    assert seen.error


@pytest.mark.parametrize(
    ("begun", "found"),
    [
        (b'{"background": false, "id": "resp_1", "output": [{"id": "msg_1", "text": "ab', "resp_1"),
        (b'{"output": [{"id": "msg_1", "text": "' + b"x" * 100_000 + b'"}], "id": "resp_1"', None),
        (b"data: no object", None),
    ],
    ids=["near", "far", "no object"],
)
def test_the_id_of_a_response_of_which_only_the_beginning_is_here(begun, found):
    """The id of the response itself, never of an item in it."""
    assert watch.begun_response_id(begun) == found
