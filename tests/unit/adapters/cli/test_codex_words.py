"""What both ways to run Codex share."""

import pytest

from iop.adapters.cli.agent import AgentFailedError, NewMessage, SaidAgain
from iop.adapters.cli.codex_words import Messages, Settings, ended_early, settings, usage_of
from iop.openai.answers import Usage


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), Settings("read-only", "never")),
        (("-m", "gpt-x"), Settings("read-only", "never")),
        (("/opt/sandbox/codex.js",), Settings("read-only", "never")),
        (("-s", "workspace-write"), Settings(None, "never")),
        (("-c", "sandbox_mode=x"), Settings(None, "never")),
        (("-a", "on-request"), Settings("read-only", None)),
        (("-c", "approval_policy=x"), Settings("read-only", None)),
        (("--profile", "mine"), Settings(None, None)),
        (("--dangerously-bypass-approvals-and-sandbox",), Settings(None, None)),
    ],
)
def test_settings(words, expected):
    """Safe unless the operator's own command says otherwise."""
    assert settings(("codex", *words)) == expected


@pytest.mark.parametrize(
    ("code", "lines", "text"),
    [
        (1, ["WARNING: proceeding, x", "Error loading: a", "fix it"], "Error loading: a fix it (exit status 1)"),
        (2, ["first", "last"], "last (exit status 2)"),
        (-9, [], "the agent failed: ended by signal 9"),
        (0, ["Reading additional input from stdin..."], "the agent ended before its turn was completed"),
        (0, ["odd"], "odd"),
    ],
)
def test_ended_early(code, lines, text):
    """The reason is what stands on stderr, without chatter."""
    assert str(ended_early(code, lines)) == text


def test_a_whole_message_adds_what_no_delta_told():
    """Deltas and the whole message together give the text once."""
    messages = Messages()
    assert list(messages.delta("1", "He")) == [NewMessage(), "He"]
    assert list(messages.whole("1", "Hello")) == ["llo"]
    assert list(messages.whole("2", "you")) == [NewMessage(), "you"]
    assert list(messages.delta("3", "a")) == [NewMessage(), "a"]
    assert list(messages.whole("3", "other")) == []


def test_a_cut_message_is_said_again():
    """Only a message under way is taken back."""
    messages = Messages()
    assert list(messages.cut()) == []
    list(messages.delta("1", "He"))
    assert list(messages.cut()) == [SaidAgain()]
    list(messages.whole("2", "Hello"))
    assert list(messages.cut()) == []


def test_the_cap():
    """An endless answer is a failure."""
    with pytest.raises(AgentFailedError, match="longer than 3 characters"):
        list(Messages(at_most=3).delta("1", "1234"))


def test_usage():
    """Four names, any of which may be missing."""
    assert usage_of({"a": 1, "b": 2, "c": None}, ("a", "b", "c", "d")) == Usage(1, 2)
    assert usage_of(None, ("a", "b", "c", "d")) is None
