"""The simulator's answers: whole and streamed ones say the same."""

import json

import pytest

from iop.simulator.answers import Said, token
from iop.simulator.asked import Asked

TEXT = "token1 token2 token3"


def say(operation, *, limited=True, usage=False):
    """Return the answer to a request for three tokens of the model `m`."""
    asked = Asked(
        operation=operation, model="m", stream=True, tokens=3, limited=limited, include_usage=usage, prompt_tokens=5
    )
    return Said(asked, 7, 1000)


def streamed(said):
    """Return the data lines of the whole stream."""
    stream = said.stream()
    raw = stream.start() + b"".join(stream.delta(token(number)) for number in range(3)) + said.closing(stream)
    return [line.removeprefix("data: ") for line in raw.decode().splitlines() if line.startswith("data: ")]


@pytest.mark.parametrize(("limited", "finish"), [(True, "length"), (False, "stop")])
@pytest.mark.parametrize("usage", [False, True])
def test_chat(limited, finish, usage):
    """A chat stream has role, tokens, finish, usage when asked for and [DONE]; joined it is the whole answer."""
    said = say("chat.completions", limited=limited, usage=usage)
    whole = said.whole()
    lines = streamed(said)
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == TEXT
    assert whole["choices"][0]["message"]["content"] == TEXT
    assert choices[-1]["finish_reason"] == whole["choices"][0]["finish_reason"] == finish
    assert [chunk["usage"] for chunk in chunks if chunk.get("usage")] == ([whole["usage"]] if usage else [])
    assert (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]) == (5, 3)


def test_responses():
    """A responses stream is numbered without a gap and ends with the response that a plain answer would be."""
    said = say("responses")
    whole = said.whole()
    events = [json.loads(line) for line in streamed(said)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["delta"] for event in events if event["type"] == "response.output_text.delta"] == [
        "token1", " token2", " token3",
    ]  # fmt: skip
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"] == whole
    assert whole["output"][0]["content"][0]["text"] == TEXT
    assert (whole["usage"]["input_tokens"], whole["usage"]["output_tokens"]) == (5, 3)
