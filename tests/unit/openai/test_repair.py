"""Responses streams that lack what clients need get it; every other byte passes as it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iop.openai.repair import ResponsesRepair
from iop.openai.responses_stream import ResponsesStream
from iop.openai.sse import SSEParser
from iop.openai.watch import StreamWatch
from tests.fakes.skeleton import check_skeleton, read_events
from tests.unit.openai.sdk import client_for

RESPONSE = {"id": "resp_1", "object": "response", "status": "in_progress"}
PART = {"type": "output_text", "text": ""}
TEXT = {"type": "output_text", "annotations": [], "text": "héllo"}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [TEXT]}
CALLS = [
    {"type": "function_call", "call_id": f"fc_{name}", "name": name, "arguments": '{"a":1}', "status": "completed"}
    for name in "ab"
]
REQUEST = b'{"input":"hi","model":"tiny"}'
CREATED = 1_800_000_000
USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


def ev(kind, line_end="\n", **fields):
    """Return one event as llama.cpp writes it."""
    data = json.dumps({"type": kind, **fields}, separators=(",", ":"), ensure_ascii=False)
    return f"event: {kind}{line_end}data: {data}{line_end}{line_end}".encode()


def call_events(call):
    """The events of one function call; its `call_id` is what `item_id` names."""
    begun = {**call, "arguments": "", "status": "in_progress"}
    return [
        ev("response.output_item.added", item=begun),
        *(
            ev("response.function_call_arguments.delta", item_id=call["call_id"], delta=each)
            for each in ('{"a"', ":1}")
        ),
    ]


def stream(line_end="\n", calls=()):
    """A whole stream without any number or place."""
    begun = {**MESSAGE, "status": "in_progress", "content": []}
    done = {**RESPONSE, "status": "completed", "output": [MESSAGE, *calls], "usage": USAGE}
    events = [
        ev("response.created", response=RESPONSE),
        ev("response.in_progress", response=RESPONSE),
        b": ping\n\n",
        ev("response.output_item.added", item=begun),
        ev("response.content_part.added", item_id="msg_1", part=PART),
        *(ev("response.output_text.delta", item_id="msg_1", delta=delta) for delta in ("hé", "llo")),
        ev("response.output_text.done", item_id="msg_1", text="héllo"),
        ev("response.content_part.done", item_id="msg_1", part=TEXT),
        ev("response.output_item.done", item=MESSAGE),
        *(each for call in calls for each in (*call_events(call), ev("response.output_item.done", item=call))),
        ev("response.completed", response=done, timings={"n": 1.50}),
        b"data: [DONE]\n\n",
    ]
    return b"".join(events).replace(b"\n", line_end.encode())


def repaired(data, size=1 << 20, max_event=1 << 20):
    """What comes out when `data` goes in by `size` bytes."""
    repair = ResponsesRepair(REQUEST, CREATED, max_event)
    return b"".join(repair.feed(data[at : at + size]) for at in range(0, len(data), size)) + repair.rest()


def numberless(number):
    """A short event of one item."""
    return ev("response.output_text.delta", item_id="msg_1", delta=str(number))


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
def test_a_bare_stream_gets_the_whole_skeleton(line_end, size):
    """Numbers, places and the empty output are added, whatever the line ends and the cut."""
    out = repaired(stream(line_end, CALLS), size)
    response, text = check_skeleton(out)
    assert (response["id"], text) == ("resp_1", "héllo")
    assert out == repaired(stream(line_end, CALLS))
    assert out.endswith(f"data: [DONE]{line_end * 2}".encode())


def test_the_official_sdk_builds_its_final_response():
    """openai-python's `responses.stream()`, which raises over the bare stream, works over the repaired one."""
    with (
        pytest.raises(TypeError),
        client_for(stream(calls=CALLS)).responses.stream(model="m", input="x") as bare,
    ):
        bare.get_final_response()
    with client_for(repaired(stream(calls=CALLS))).responses.stream(model="m", input="x") as seen:
        events = list(seen)
        final = seen.get_final_response()
    assert final.output_text == "".join(e.delta for e in events if e.type == "response.output_text.delta") == "héllo"
    assert [item.name for item in final.output if item.type == "function_call"] == ["a", "b"]


def test_a_beginning_tells_when_and_which_model():
    """What both beginnings lack comes from the request and from when the answer began; what was sent stands."""
    lacking = {"id": "r", "created_at": CREATED, "output": [], "model": "tiny"}
    own = {"id": "r", "created_at": 5, "output": [], "model": "own"}
    for kind in ("response.created", "response.queued", "response.in_progress"):
        assert read_events(repaired(ev(kind, response={"id": "r", "model": None})))[0]["response"] == lacking
        assert repaired(ev(kind, response=own)) == ev(kind, response=own, sequence_number=0)


@pytest.mark.parametrize("request_body", [b"", b"no JSON", b'{"input":"hi"}'])
def test_a_request_that_names_no_model(request_body):
    """Nothing is made up: the beginning gets the rest."""
    out = ResponsesRepair(request_body, CREATED).feed(ev("response.created", response={"id": "r"}))
    assert read_events(out)[0]["response"] == {"id": "r", "created_at": CREATED, "output": []}


def test_all_bytes_that_were_sent_are_kept():
    """Taking the additions away gives the engine's bytes: order, spaces, number spellings, comments."""
    data = b'{"type" : "response.output_text.delta","item_id":"m", "delta":"\\u00e9","x":1.50e0 }'
    spaced = b"id: 1\ndata: " + data + b"\nretry: 5\n\n"
    added = b',"output_index":0,"content_index":0,"sequence_number":0'
    assert repaired(spaced) == spaced.replace(b" }", b" " + added + b"}")


def test_parallel_calls_keep_their_places():
    """Deltas of two open calls go to their own item, and each ends where it began."""
    first, second = (call_events(call) for call in CALLS)
    mixed = [first[0], second[0], first[1], second[1], first[2], second[2]]
    ends = [ev("response.output_item.done", item=call) for call in reversed(CALLS)]
    places = [event["output_index"] for event in read_events(repaired(b"".join((*mixed, *ends))))]
    assert places == [0, 1, 0, 1, 0, 1, 1, 0]


def test_items_without_names_and_with_one_name():
    """Nameless events belong to the newest item; items of one name end in the order in which they began."""
    added, done = (ev(f"response.output_item.{verb}", item={"type": "message"}) for verb in ("added", "done"))
    bare = ev("response.output_text.delta", delta="x")
    places = [e["output_index"] for e in read_events(repaired(bare + added + bare + done + added + bare + done))]
    assert places == [0, 1, 1, 0, 2, 2, 1]
    same = (
        ev("response.output_item.added", item={"id": "i"}) * 2 + ev("response.output_item.done", item={"id": "i"}) * 3
    )
    assert [e["output_index"] for e in read_events(repaired(same))] == [0, 1, 0, 1, 2]


def test_parts_of_an_item_are_counted():
    """A second part of an item has content index 1, for itself and its deltas."""
    part = ev("response.content_part.added", item_id="msg_1", part=PART)
    other = ev("response.output_item.added", item={"type": "reasoning", "id": "rs_1"})
    other += ev("response.reasoning_text.delta", item_id="rs_1", delta="x")
    data = part + numberless(1) + part + numberless(2) + other
    assert [e.get("content_index") for e in read_events(repaired(data))] == [0, 0, 1, 1, None, 0]


def test_what_an_engine_numbers_itself_is_kept():
    """In a stream under repair an engine's own numbers and places stand, and the count goes on from them."""
    data = (
        numberless(0)
        + ev("response.output_item.added", sequence_number=7, output_index=4, item={"id": "i"})
        + ev("response.content_part.added", item_id="i", content_index=2)
        + ev("response.output_text.delta", item_id="i", sequence_number=None, delta="")
        + ev("response.output_item.added", item={"id": "j"})
    )
    events = read_events(repaired(data))
    assert [e["sequence_number"] for e in events] == [0, 7, 8, 9, 10]
    assert [e["output_index"] for e in events] == [0, 4, 4, 4, 5]
    assert [e["content_index"] for e in events[2:4]] == [2, 2]


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_a_numbered_stream_passes_untouched(size, line_end):
    """A stream whose first event has a number is passed byte for byte, and half events are not held back."""
    whole = ResponsesStream("resp_1", "m", 7)
    data = b": hello\n\n" + whole.start() + numberless(0) + b'data: {"type":"response.half'
    data = data.replace(b"\n", line_end)
    repair = ResponsesRepair(REQUEST, CREATED)
    assert b"".join(repair.feed(data[at : at + size]) for at in range(0, len(data), size)) == data
    assert repair.rest() == b""


@pytest.mark.parametrize(
    "data",
    [
        b'data: {"error":{"message":"x"}}\n\n',
        b"data: [DONE]\n\n: x\n\nevent: x\n\n\n\n",
        b'data: not json\n\ndata: [1]\n\ndata: {"type":1}\n\ndata: ' + b"[" * 100_000 + b"\n\n",
        b'data: {"type":"response.cre',
        b"",
    ],
)
def test_what_is_no_response_event_passes(data):
    """Error objects, the end mark, comments, nonsense and half an event keep every byte."""
    assert repaired(data) == repaired(data, 1) == data


def test_an_event_is_passed_on_with_its_last_byte():
    """Nothing waits for the next event."""
    repair = ResponsesRepair(REQUEST, CREATED)
    events = [numberless(n) for n in range(3)]
    for event in events:
        assert repair.feed(event[:-1]) == b""
        assert repair.feed(event[-1:]).endswith(b"}\n\n")


def test_a_last_event_without_its_empty_line_is_repaired_too():
    """A stream that ends right after its last data is as good as one with an empty line."""
    assert read_events(repaired(numberless(0)[:-2]) + b"\n\n")[0]["sequence_number"] == 0


def test_data_in_several_lines():
    """An object written over several data lines is completed in its last one; a beginning is written anew."""
    delta = b'data: {"type":"response.output_text.delta",\nid: 5\ndata: "delta":"}"\ndata: }\n\n'
    assert json.loads(SSEParser().feed(repaired(delta))[0].data)["output_index"] == 0
    created = (
        b'event: response.created\r\ndata:{"type":"response.created",\r\ndata:"response":{"id":"r"}}\r\nid: 5\r\n\r\n'
    )
    out = b'event: response.created\r\ndata: {"type":"response.created","response":{"id":"r","created_at":1800000000,'
    assert repaired(created) == out + b'"output":[],"model":"tiny"},"sequence_number":0}\r\nid: 5\r\n\r\n'


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_huge_event_passes_as_it_is_and_memory_stays_bounded(line_end):
    """Over the bound an event is passed while it comes, unrepaired; the next one is repaired again."""
    huge = ev("response.output_text.delta", line_end, delta="y" * 5000)
    small = numberless(1).replace(b"\n", line_end.encode())
    data = small + huge + small + huge + small
    repair = ResponsesRepair(REQUEST, CREATED, max_event=500)
    out = b""
    for at in range(0, len(data), 100):
        out += repair.feed(data[at : at + 100])
        assert len(repair._splitter.held) <= 600
    out += repair.rest()
    assert out.count(huge) == 2
    assert [e.get("sequence_number") for e in read_events(out)] == [0, None, 1, None, 2]
    assert out == repaired(data, max_event=500)


def test_an_event_that_was_let_go_may_end_the_stream():
    """The beginning that was passed is not passed twice, and what came before it is repaired."""
    half = ev("response.output_text.delta", delta="y" * 5000)[:-2]
    assert repaired(numberless(0) + half, max_event=500) == repaired(numberless(0)) + half


def test_the_watch_goes_on_from_the_repaired_numbers():
    """Who ends a cut stream numbers its `response.failed` next."""
    watch = StreamWatch("responses")
    watch.feed(repaired(stream())[: -len(b"data: [DONE]\n\n") - 100])
    assert (watch.response_id, watch.next_sequence_number, watch.terminal) == ("resp_1", 9, False)


LINES = st.sampled_from(["\n", "\r\n", "\r"])
EVENTS = st.lists(
    st.one_of(
        st.builds(
            ev,
            st.sampled_from(
                [
                    "response.created",
                    "response.output_item.added",
                    "response.output_item.done",
                    "response.content_part.added",
                    "response.output_text.delta",
                    "response.completed",
                ]
            ),
            LINES,
            item_id=st.sampled_from(["a", "b", "é"]),
            delta=st.text(max_size=40),
        ),
        st.builds(lambda end: f": ping{end}{end}".encode(), LINES),
        st.binary(max_size=20),
    ),
    max_size=8,
).map(b"".join)


@given(EVENTS, st.lists(st.integers(0, 400), max_size=6), st.sampled_from([60, 150, 1 << 20]))
def test_the_cut_makes_no_difference(data, cuts, max_event):
    """One byte at a time, in any chunks, or at once: the same bytes come out."""
    repair = ResponsesRepair(REQUEST, CREATED, max_event)
    at, out = 0, b""
    for cut in sorted(cuts):
        out += repair.feed(data[at:cut]) if cut > at else b""
        at = max(at, cut)
    out += repair.feed(data[at:]) + repair.rest()
    assert out == repaired(data, 1, max_event) == repaired(data, max_event=max_event)
