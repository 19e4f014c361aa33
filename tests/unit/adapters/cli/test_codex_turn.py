"""One turn with the app-server, message by message."""

import json

import pytest

from iop.adapters.cli.agent import AgentFailedError, NewMessage
from iop.adapters.cli.codex_turn import Turn, answer_to, line, reason
from iop.adapters.cli.codex_words import Settings
from iop.openai.answers import Usage

SAFE = Settings(sandbox="read-only", approval="never")


def sent(turn):
    """Return what is to be sent, as (method, id)."""
    return [(m.get("method"), m.get("id")) for m in map(json.loads, turn.take().splitlines())]


def test_the_conversation():
    """Each step is asked once the one before has been answered."""
    turn = Turn("hi", "/work", SAFE)
    assert sent(turn) == [("initialize", 1)]
    assert list(turn.receive({"id": 1, "result": {}})) == []
    assert sent(turn) == [("initialized", None), ("thread/start", 2)]
    list(turn.receive({"id": 2, "result": {"thread": {"id": "t"}}}))
    assert sent(turn) == [("turn/start", 3)]
    assert not turn.interrupt()
    list(turn.receive({"id": 3, "result": {"turn": {"id": "u"}}}))
    assert turn.interrupt()
    (message,) = map(json.loads, turn.take().splitlines())
    assert message["params"] == {"threadId": "t", "turnId": "u"}


def test_the_last_count_of_tokens_is_told_at_the_end():
    """Usage is the thread's total, also where Codex counts more than once; garbage in it counts as nothing."""
    turn = Turn("hi", None, SAFE)
    for tokens in (5, 7):
        total = {"inputTokens": tokens, "outputTokens": 2, "cachedInputTokens": "x", "reasoningOutputTokens": 1}
        list(turn.receive({"method": "thread/tokenUsage/updated", "params": {"tokenUsage": {"total": total}}}))
    list(turn.receive({"method": "thread/tokenUsage/updated", "params": {"tokenUsage": None}}))
    said = list(turn.receive({"method": "item/completed", "params": {"item": {"type": "agentMessage", "text": "x"}}}))
    assert said == [NewMessage(), "x"]
    completed = {"method": "turn/completed", "params": {"turn": {"status": "completed"}}}
    assert list(turn.receive(completed)) == [Usage(7, 2, cached_tokens=0, reasoning_tokens=1)]
    assert turn.done
    assert not turn.interrupt()


@pytest.mark.parametrize(
    "message",
    [{}, {"id": "x"}, {"method": 3}, {"method": "new/thing", "params": []}, {"method": "item/completed", "params": {}}],
)
def test_what_is_not_understood_is_passed_over(message):
    """Messages of another version, or of no sense, change nothing."""
    turn = Turn("hi", None, SAFE)
    turn.take()
    assert list(turn.receive(message)) == []
    assert turn.take() == b""


def test_a_turn_without_a_status_has_failed():
    """A completed turn that does not say so has not completed well."""
    with pytest.raises(AgentFailedError, match="ended as None"):
        list(Turn("hi", None, SAFE).receive({"method": "turn/completed"}))


def test_reasons():
    """An error object's message, its details, or that there was none."""
    assert reason({"message": "a", "additionalDetails": "b"}) == "a (b)"
    assert reason({"additionalDetails": "b"}) == "b"
    assert reason({"message": "x" * 1000}) == "x" * 500
    assert reason(None) == reason({}) == "the agent failed without a reason"


def test_answers_to_requests_of_the_server():
    """Permissions are not granted; the unknown is a JSON-RPC error."""
    assert answer_to("item/permissions/requestApproval", 1) == {"id": 1, "result": {"permissions": {}}}
    assert answer_to("x", "a")["error"]["code"] == -32601
    assert line({"a": "\u2028é"}) == b'{"a": "\\u2028\\u00e9"}\n'
