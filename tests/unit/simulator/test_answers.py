"""The simulator's answers: whole and streamed ones say the same."""

import json

import pytest

from iop.simulator.answers import answer
from iop.simulator.asked import Asked


def ask(operation, *, tokens=3, limited=True, usage=False):
    """Return an `Asked` for the model `m`."""
    return Asked(
        operation=operation,
        model="m",
        stream=True,
        tokens=tokens,
        limited=limited,
        include_usage=usage,
        prompt_tokens=5,
    )


def streamed(asked):
    """Return the data lines of the whole stream."""
    said = answer(asked, 7, 1000)
    raw = said.opening() + b"".join(said.piece(number) for number in range(asked.tokens)) + said.closing()
    return [line.removeprefix("data: ") for line in raw.decode().splitlines() if line.startswith("data: ")]


@pytest.mark.parametrize(("limited", "finish"), [(True, "length"), (False, "stop")])
@pytest.mark.parametrize("usage", [False, True])
def test_chat(limited, finish, usage):
    """A chat stream has role, tokens, finish, usage when asked for and [DONE]; joined it is the whole answer."""
    asked = ask("chat.completions", limited=limited, usage=usage)
    whole = answer(asked, 7, 1000).whole()
    lines = streamed(asked)
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    text = "".join(choice["delta"].get("content", "") for choice in choices)
    assert text == whole["choices"][0]["message"]["content"] == "token1 token2 token3"
    assert choices[-1]["finish_reason"] == whole["choices"][0]["finish_reason"] == finish
    assert [chunk["usage"] for chunk in chunks if "usage" in chunk] == ([whole["usage"]] if usage else [])
    assert whole["usage"] == {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


@pytest.mark.parametrize(("limited", "status"), [(True, "incomplete"), (False, "completed")])
def test_responses(limited, status):
    """A responses stream is numbered without a gap and ends with the response that a plain answer would be."""
    asked = ask("responses", limited=limited)
    whole = answer(asked, 7, 1000).whole()
    events = [json.loads(line) for line in streamed(asked)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created", "in_progress", "output_item.added", "content_part.added", *["output_text.delta"] * 3,
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert events[-1]["response"] == whole
    assert whole["status"] == status
    assert whole["output"][0]["content"][0]["text"] == "token1 token2 token3"
