"""Agents' answers in the shapes of the two APIs."""

import json

import pytest

from iop.adapters.cli.agent import NewMessage, SaidAgain
from iop.adapters.cli.shapes import Spoken, event_stream, whole
from iop.adapters.contract import RunRequest
from iop.openai.answers import Usage


def ask(operation, body=b"{}"):
    """Return a request for the model `codex`."""
    return RunRequest(request_id="r", operation=operation, stream=True, body=body, model="codex")


@pytest.mark.parametrize(
    ("operation", "object_name", "made_id"),
    [("chat.completions", "chat.completion", "chatcmpl-1"), ("responses", "response", "resp_1")],
)
def test_whole(operation, object_name, made_id):
    """A whole answer is that API's object under the public model name."""
    spoken = Spoken()
    spoken.add("hé")
    answer = json.loads(whole(ask(operation), "1", 5, spoken))
    assert (answer["object"], answer["id"], answer["model"]) == (object_name, made_id, "codex")
    assert "hé" in json.dumps(answer, ensure_ascii=False)


@pytest.mark.parametrize(("operation", "last"), [("chat.completions", "[DONE]"), ("responses", "response.completed")])
def test_stream(operation, last):
    """A stream has that API's events and its own end."""
    stream = event_stream(ask(operation), "1", 5)
    out = stream.start() + stream.delta("hé") + stream.finish()
    assert last in out.decode().strip().splitlines()[-1]
    assert "h\\u00e9" in out.decode()


def test_usage_option_is_read():
    """A chat client that asks for usage gets the member in each chunk, null as the tokens are not known."""
    stream = event_stream(ask("chat.completions", b'{"stream_options": {"include_usage": true}}'), "1", 5)
    assert b'"usage":null' in stream.start()


def test_what_was_said():
    """Messages are set apart; what is said again is taken back from the whole text, and cannot be from a stream."""
    spoken = Spoken()
    told = [spoken.add(said) for said in (NewMessage(), "a", "b", NewMessage(), "c", SaidAgain(), NewMessage(), "cd")]
    assert told == ["", "a", "b", "", "\n\nc", "", "", "\n\ncd"]
    assert spoken.add(Usage(1, 2)) == ""
    assert (spoken.text(), spoken.usage) == ("ab\n\ncd", Usage(1, 2))


def test_usage_is_told_in_the_last_events():
    """A response's tokens are in its terminal event, a chat's in the extra chunk."""
    stream = event_stream(ask("responses"), "1", 5)
    assert b'"total_tokens":3' in stream.finish(usage=Usage(1, 2))
    stream = event_stream(ask("chat.completions", b'{"stream_options": {"include_usage": true}}'), "1", 5)
    assert b'"total_tokens":3' in stream.finish(usage=Usage(1, 2))
