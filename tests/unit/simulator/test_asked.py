"""What the simulator reads from a request, and what it refuses."""

import json

import pytest

from iop.simulator.asked import Refused, read

MESSAGES = [{"role": "user", "content": "hi"}]


def ask(operation="chat.completions", **fields):
    """Read one request for the model `m`."""
    return read(operation, json.dumps(fields).encode(), ("m",))


@pytest.mark.parametrize(
    ("operation", "fields", "tokens", "limited"),
    [
        ("chat.completions", {"messages": MESSAGES}, 16, False),
        ("chat.completions", {"messages": MESSAGES, "max_tokens": 3}, 3, True),
        ("chat.completions", {"messages": MESSAGES, "max_tokens": 3, "max_completion_tokens": 40}, 40, True),
        ("responses", {"input": "hi"}, 16, False),
        ("responses", {"input": [], "max_output_tokens": 2}, 2, True),
        ("responses", {"input": "hi", "max_tokens": 2}, 16, False),
    ],
)
def test_limits(operation, fields, tokens, limited):
    """Each API's own limit is honoured; without one the answer has sixteen tokens."""
    asked = ask(operation, model="m", **fields)
    assert (asked.tokens, asked.limited) == (tokens, limited)


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        (b"{", 400, "invalid_json", None),
        (b"[]", 400, "invalid_json", None),
        (b"\xff\xfe", 400, "invalid_json", None),
        (b'{"messages": []}', 404, "model_not_found", "model"),
        (b'{"model": "x", "messages": []}', 404, "model_not_found", "model"),
        (b'{"model": "m"}', 400, None, "messages"),
        (b'{"model": "m", "messages": "hi"}', 400, None, "messages"),
        (b'{"model": "m", "messages": [], "max_tokens": 0}', 400, None, "max_tokens"),
        (b'{"model": "m", "messages": [], "max_tokens": true}', 400, None, "max_tokens"),
        (b'{"model": "m", "messages": [], "max_tokens": "9"}', 400, None, "max_tokens"),
    ],
)
def test_refusals(body, status, code, param):
    """Each bad request is told in OpenAI's error shape."""
    with pytest.raises(Refused) as caught:
        read("chat.completions", body, ("m",))
    assert caught.value.status == status
    error = caught.value.body["error"]
    assert (error["code"], error["param"]) == (code, param)


@pytest.mark.parametrize(("options", "wanted"), [(None, False), ({"include_usage": True}, True), ([], False)])
def test_usage_is_told_when_asked_for(options, wanted):
    """`stream_options.include_usage` is read, whatever else stands in its place."""
    assert ask(model="m", messages=MESSAGES, stream_options=options).include_usage is wanted
