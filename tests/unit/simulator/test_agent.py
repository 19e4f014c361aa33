"""The stand-in agent."""

import io

import pytest

from iop.simulator.agent import answer, words


@pytest.mark.parametrize("text", [b"", b"one", b"a b  c ", "é 漢 🙂".encode()])
def test_words_lose_nothing(text):
    """The pieces joined are the text."""
    assert b"".join(words(text)) == text


@pytest.mark.parametrize("delay", [0.0, 0.5])
def test_answers_with_the_prompt(delay):
    """The answer is the prompt behind a prefix, one pause before each word when a delay is set."""
    out, pauses = io.BytesIO(), []
    answer(io.BytesIO(b"hello big world"), out, delay=delay, sleep=pauses.append)
    assert out.getvalue() == b"agent: hello big world"
    assert pauses == [delay] * (4 if delay else 1)
