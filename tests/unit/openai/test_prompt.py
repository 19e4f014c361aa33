"""Prompts of CLI agents."""

import json

import pytest

from iop.domain.errors import BadRequest
from iop.openai.prompt import include_usage, prompt_text


def body(**fields):
    """A request body."""
    return json.dumps({"model": "agent", **fields}).encode()


def user(content):
    """One user message."""
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("messages", "prompt"),
    [
        ([user("  hi\n\nthere \n")], "  hi\n\nthere \n"),
        ([user("")], ""),
        ([user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])], "a\nb"),
        ([{"role": "system", "content": "be brief"}], "system: be brief"),
        ([{"role": "system", "content": "be brief"}, user("hi")], "system: be brief\n\nuser: hi"),
        (
            [user("hi"), {"role": "assistant", "content": "yes?"}, user([{"type": "text", "text": "go"}])],
            "user: hi\n\nassistant: yes?\n\nuser: go",
        ),
        ([user("a\ud800b \U0001f600 模")], "a\ufffdb \U0001f600 模"),
    ],
)
def test_chat_messages(messages, prompt):
    """One user message is exactly its text; more are blocks; half a surrogate pair (B32) can be written as UTF-8."""
    text = prompt_text(body(messages=messages), "chat.completions")
    assert text == prompt
    assert text.encode().decode() == prompt


@pytest.mark.parametrize(
    ("fields", "prompt"),
    [
        ({"input": "hi"}, "hi"),
        ({"input": "hi", "instructions": None}, "hi"),
        ({"input": "hi", "instructions": ""}, "hi"),
        ({"input": "hi", "instructions": "be brief"}, "system: be brief\n\nuser: hi"),
        ({"input": [user([{"type": "input_text", "text": "hi"}])]}, "hi"),
        ({"input": [{"type": "message", **user("hi")}]}, "hi"),
        (
            {
                "input": [
                    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]},
                    user("q"),
                    {"role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
                    user("r"),
                ]
            },
            "developer: d\n\nuser: q\n\nassistant: a\n\nuser: r",
        ),
    ],
)
def test_responses_input(fields, prompt):
    """`input` as text or as items, `instructions` as a system block before it."""
    assert prompt_text(body(**fields), "responses") == prompt


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        "hi",
        ["hi"],
        [{"content": "x"}],
        [{"role": 7, "content": "x"}],
        [user(None)],
        [user(7)],
        [user("a\0b")],
        [user(["a"])],
        [user([{"type": "text"}])],
        [user([{"type": ["text"], "text": "x"}])],
        [user([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:,"}}])],
        [user([{"type": "input_audio", "input_audio": {}}])],
        [{"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}],
        [{"type": "function_call_output", "call_id": "c", "output": "x"}],
        [{"type": {}, "role": "user", "content": "x"}],
    ],
)
def test_what_is_no_text_is_refused(messages):
    """NUL, images, audio, tool calls and malformed messages are a 400 that names the place, never a crash."""
    for operation, field in (("chat.completions", "messages"), ("responses", "input")):
        if operation == "responses" and messages == "hi":
            continue
        with pytest.raises(BadRequest) as caught:
            prompt_text(body(**{field: messages}), operation)
        assert caught.value.code == "invalid_body"
        assert caught.value.param is not None
        assert caught.value.param.startswith(field)


def test_refusal_says_what_is_supported():
    """The message for a picture names the part and the kinds that would do."""
    with pytest.raises(BadRequest, match=r'messages\[0\]\.content\[0\].*"image_url".*text, input_text'):
        prompt_text(body(messages=[user([{"type": "image_url"}])]), "chat.completions")
    with pytest.raises(BadRequest, match="instructions"):
        prompt_text(body(input="hi", instructions=7), "responses")


def test_odd_bodies_do_not_crash():
    """Very long numbers, no JSON, no object: read, or refused with a code."""
    assert prompt_text(b'{"n":' + b"9" * 5000 + b',"input":"x"}', "responses") == "x"
    for raw, code in ((b"{", "invalid_json"), (b"\xff", "invalid_json"), (b"[]", "invalid_body")):
        with pytest.raises(BadRequest) as caught:
            prompt_text(raw, "responses")
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("options", "wanted"), [({"include_usage": True}, True), ({"include_usage": 1}, False), (None, False), ([], False)]
)
def test_include_usage(options, wanted):
    """Usage chunks are sent only when asked for (B18)."""
    assert include_usage(body(stream_options=options)) is wanted
