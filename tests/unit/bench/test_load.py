"""What a chaos client makes of an answer."""

import json
from typing import Any

import pytest

from tests.bench.load import Ask, Mix, Seen, judge_body, judge_break

ERROR = {"message": "no", "type": "server_error", "param": None, "code": "upstream_broken"}
DELTA = {"type": "response.output_text.delta", "delta": "token1 token2"}


def ask(kind: str = "chat", tokens: int = 2, **more: Any) -> Ask:
    """A request for two tokens."""
    return Ask(**{"request_id": "chaos-1-2", "route": "pool", "part": "reads", "leaves_after": 0.0, **more,
                  "kind": kind, "tokens": tokens})  # fmt: skip


def seen(body: str, status: int = 200, **more: Any) -> Seen:
    """An answer that has come to its end."""
    return Seen(status=status, body=bytearray(body.encode()), **more)


def chat(text: str, reason: str | None = "length") -> str:
    """A whole chat completion."""
    return json.dumps({"choices": [{"message": {"content": text}, "finish_reason": reason}]})


def stream(*events: Any, done: bool = True) -> str:
    """A chat stream of texts and whole events."""
    whole = [one if isinstance(one, dict) else {"choices": [{"delta": {"content": one}}]} for one in events]
    return "".join(f"data: {json.dumps(one)}\n\n" for one in whole) + ("data: [DONE]\n\n" if done else "")


@pytest.mark.parametrize(
    ("kind", "body", "outcome"),
    [
        ("chat", chat("token1 token2"), "answered"),
        ("chat", chat("token1"), "wrong"),
        ("chat", chat("token1 token2 token2"), "wrong"),
        ("chat", chat("token1 token2", None), "wrong"),
        ("chat", "{", "wrong"),
        ("chat stream", stream("token1", " token2"), "answered"),
        ("chat stream", stream("token1"), "wrong"),
        ("chat stream", stream("token1", " token2", done=False), "wrong"),
        ("chat stream", stream("token1", {"error": ERROR}, done=False), "error"),
        ("chat stream", stream("token1", {"error": {"message": "no"}}, done=False), "wrong"),
        ("responses stream", stream(DELTA, {"type": "response.completed"}, done=False), "answered"),
        ("responses stream", stream(DELTA, done=False), "wrong"),
        ("responses stream", stream({"type": "response.failed", "response": {"error": ERROR}}, done=False), "error"),
    ],
)  # fmt: skip
def test_an_answer_is_whole_and_to_the_word_or_it_is_an_error_or_wrong(kind: str, body: str, outcome: str) -> None:
    """Nothing may be missing or doubled, and an error is OpenAI's object."""
    found = seen(body)
    judge_body(ask(kind), found)
    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (json.dumps({"error": ERROR}), "error"),
        (json.dumps({"error": {**ERROR, "message": ""}}), "wrong"),
        (json.dumps({"error": "no"}), "wrong"),
        ("<html>", "wrong"),
    ],
)
def test_an_error_answer_is_an_error_object(body: str, outcome: str) -> None:
    """With its four fields and a message."""
    found = seen(body, 502)
    judge_body(ask(), found)
    assert (found.outcome, found.code) == (outcome, "upstream_broken" if outcome == "error" else None)


@pytest.mark.parametrize(
    ("body", "status", "outcome", "code"),
    [
        ("", 0, "refused", None),
        (stream("token1", done=False), 200, "cut", None),
        (stream("token1", {"error": ERROR}, done=False), 200, "error", "upstream_broken"),
        (stream("token1", " token2"), 200, "cut", "after the end"),
    ],
)
def test_a_break_says_how_far_it_had_come(body: str, status: int, outcome: str, code: str | None) -> None:
    """Without a word, with an error before it, or after an answer that was whole."""
    found = seen(body, status)
    judge_break(ask("chat stream"), found, ConnectionError("gone"))
    assert (found.outcome, found.code) == (outcome, code)


def test_the_provider_of_a_stream_that_was_opened_early_stands_in_a_comment() -> None:
    """Where the header came too early to know it."""
    found = seen(": keep-alive\n\n: iop provider=p1 queue_ms=3\n\n" + stream("token1", " token2"))
    judge_body(ask("chat stream"), found)
    assert (found.outcome, found.provider) == ("answered", "p1")


def test_the_prompt_holds_the_id() -> None:
    """By it a request is known on its way to an engine; an agent repeats it."""
    assert "chaos-1-2." in json.dumps(ask().body(Mix()))
    found = seen(chat("agent: I am chaos-1-2."))
    judge_body(ask(route="direct"), found)
    assert found.outcome == "answered"
