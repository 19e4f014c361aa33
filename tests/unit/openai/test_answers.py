"""Whole answers are what the official SDK's own types accept."""

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from iop.openai.answers import Answer, Usage, chat_completion, response, response_skeleton

USAGE = Usage(11, 3, cached_tokens=2, reasoning_tokens=1)


@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize("usage", [None, USAGE])
def test_chat_completion(reason, usage):
    """A chat completion validates strictly; tokens that are not known are not invented."""
    made = chat_completion("chatcmpl-1", "m", 7, Answer("hé", reason, usage))
    read = ChatCompletion.model_validate(made)
    assert read.choices[0].message.content == "hé"
    assert read.choices[0].message.role == "assistant"
    assert read.choices[0].finish_reason == reason
    assert (read.id, read.created, read.model) == ("chatcmpl-1", 7, "m")
    if usage is None:
        assert "usage" not in made
    else:
        assert (read.usage.prompt_tokens, read.usage.completion_tokens, read.usage.total_tokens) == (11, 3, 14)
        assert read.usage.prompt_tokens_details.cached_tokens == 2


@pytest.mark.parametrize(("reason", "status"), [("stop", "completed"), ("length", "incomplete")])
@pytest.mark.parametrize("usage", [None, USAGE])
def test_response(reason, status, usage):
    """A response validates strictly; cut by length it is incomplete and says why."""
    read = Response.model_validate(response("resp_1", "m", 7, Answer("hé", reason, usage)))
    assert read.output_text == "hé"
    assert (read.id, read.created_at, read.model, read.status) == ("resp_1", 7, "m", status)
    assert read.output[0].id == "msg_1"
    assert read.output[0].status == status
    assert (read.incomplete_details.reason if read.incomplete_details else None) == (
        "max_output_tokens" if status == "incomplete" else None
    )
    assert (read.usage.total_tokens if read.usage else None) == (14 if usage else None)


@pytest.mark.parametrize("status", ["in_progress", "failed"])
def test_response_skeleton(status):
    """A response without output has all that the SDK requires."""
    read = Response.model_validate(response_skeleton("resp_1", "m", 7, status))
    assert (read.status, read.output_text) == (status, "")
