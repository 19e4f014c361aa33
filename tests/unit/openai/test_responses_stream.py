"""Streamed responses, read by the official SDK and by a check of the skeleton."""

import json

import pytest
from openai import APIError
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from iop.domain.errors import UpstreamError
from iop.openai.answers import Usage
from iop.openai.responses_stream import ResponsesStream
from iop.openai.sse import SSEParser
from iop.openai.watch import StreamWatch
from tests.unit.openai.sdk import client_for

TEXTS = ["Hi", ' "q"\n\u2028', "", "é模😀"]
ASK = {"model": "m", "input": "hi"}


def made(reason="stop"):
    """A whole stream of TEXTS."""
    stream = ResponsesStream("resp_1", "m", 7)
    return stream.start() + b"".join(stream.delta(text) for text in TEXTS) + stream.finish(reason, Usage(11, 3))


@pytest.mark.parametrize(("reason", "terminal"), [("stop", "response.completed"), ("length", "response.incomplete")])
def test_skeleton_is_complete(reason, terminal):
    """B22: every event validates, in order; numbers rise from 0; the final object holds exactly the deltas."""
    events = SSEParser().feed(made(reason))
    data = [json.loads(event.data) for event in events]
    for event, each in zip(events, data, strict=True):
        assert event.event == each["type"]
        assert TypeAdapter(ResponseStreamEvent).validate_python(each).type == each["type"]
    assert [each["type"] for each in data] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 3,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        terminal,
    ]
    assert [each["sequence_number"] for each in data] == list(range(len(data)))
    text = "".join(each["delta"] for each in data if each["type"].endswith(".delta"))
    final = Response.model_validate(data[-1]["response"])
    assert text == "".join(TEXTS) == final.output_text == data[-4]["text"] == data[-3]["part"]["text"]
    assert data[-2]["item"] == data[-1]["response"]["output"][0]
    assert {each["item_id"] for each in data if "item_id" in each} == {final.output[0].id}
    assert final.usage.total_tokens == 14


def test_sdk_accumulates():
    """B22: the SDK's stream helper gives a final response whose text is the joined deltas."""
    with client_for(made()).responses.stream(**ASK) as events:
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        final = events.get_final_response()
    assert final.output_text == "".join(deltas) == "".join(TEXTS)
    assert final.usage.output_tokens == 3


def test_an_empty_answer_is_whole():
    """No text at all is still the whole skeleton with an empty text."""
    stream = ResponsesStream("resp_1", "m", 7)
    with client_for(stream.start() + stream.delta("") + stream.finish()).responses.stream(**ASK) as events:
        assert events.get_final_response().output_text == ""


@pytest.mark.parametrize("back", [0, 1, 30, 200])
def test_sdk_sees_a_failure(back):
    """B23: a stream cut between or within events tells response.failed or the error, and the SDK raises."""
    stream = ResponsesStream("resp_1", "m", 7)
    data = stream.start() + stream.delta("Hi ") + stream.delta("there")
    data = data[: len(data) - back]
    seen = StreamWatch("responses")
    seen.feed(data)
    sent = data + seen.ending(UpstreamError("It broke.", code="upstream_broken"))
    with pytest.raises(APIError, match=r"It broke\.") as caught:
        list(client_for(sent).responses.create(stream=True, **ASK))
    assert caught.value.code == "upstream_broken"
