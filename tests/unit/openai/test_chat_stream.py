"""Streamed chat completions, read by the official SDK."""

import json

import pytest
from openai import APIError
from openai.types.chat import ChatCompletionChunk

from iop.domain.errors import UpstreamError
from iop.openai.answers import Usage
from iop.openai.chat_stream import ChatStream
from iop.openai.sse import SSEParser
from iop.openai.watch import StreamWatch
from tests.unit.openai.sdk import client_for

TEXTS = ["Hi", ' "q"\n\u2028', "é模😀", "\ud800", ""]
ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def made(*, include_usage, usage):
    """A whole stream of TEXTS."""
    stream = ChatStream("chatcmpl-1", 'm"content":""', 7, include_usage=include_usage)
    return stream.start() + b"".join(stream.delta(text) for text in TEXTS) + stream.finish("length", usage)


@pytest.mark.parametrize("include_usage", [False, True])
@pytest.mark.parametrize("usage", [None, Usage(11, 3)])
def test_chunks(include_usage, usage):
    """Every chunk validates; the role comes first, the reason last; usage only when asked for and known (B18)."""
    events = [event.data for event in SSEParser().feed(made(include_usage=include_usage, usage=usage))]
    assert events.pop() == "[DONE]"
    chunks = [ChatCompletionChunk.model_validate(json.loads(event)) for event in events]
    assert {(chunk.id, chunk.model, chunk.created) for chunk in chunks} == {("chatcmpl-1", 'm"content":""', 7)}
    assert chunks[0].choices[0].delta.role == "assistant"
    if include_usage and usage:
        last = chunks.pop()
        assert last.choices == []
        assert last.usage.total_tokens == 14
    assert all(chunk.usage is None for chunk in chunks)
    assert all(("usage" in json.loads(event)) is include_usage for event in events)
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert [chunk.choices[0].delta.content for chunk in chunks[1:-1]] == TEXTS[:-1]


def test_sdk_accumulates():
    """The SDK's stream helper gives the text and the usage that were put in."""
    stream = ChatStream("chatcmpl-1", "m", 7, include_usage=True)
    data = stream.start() + stream.delta("Hi ") + stream.delta("模😀") + stream.finish("stop", Usage(11, 3))
    with client_for(data).chat.completions.stream(**ASK) as events:
        final = events.get_final_completion()
    assert final.choices[0].message.content == "Hi 模😀"
    assert final.choices[0].finish_reason == "stop"
    assert final.usage.total_tokens == 14


@pytest.mark.parametrize("cut", [0, 30, 200, 420, 431])
def test_sdk_sees_a_failure(cut):
    """B14: a stream cut anywhere makes the SDK raise with iop's message and code."""
    stream = ChatStream("chatcmpl-1", "m", 7)
    data = (stream.start() + stream.delta("Hi ") + stream.delta("there") * 9)[:cut]
    seen = StreamWatch("chat.completions")
    seen.feed(data)
    sent = data + seen.ending(UpstreamError("It broke.", code="upstream_broken"))
    with pytest.raises(APIError, match=r"It broke\.") as caught:
        list(client_for(sent).chat.completions.create(stream=True, **ASK))
    assert caught.value.code == "upstream_broken"
