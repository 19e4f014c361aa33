"""The answer of an agent in the shape of the API that was asked."""

import json
from typing import Protocol

from iop.adapters.contract import RunRequest
from iop.openai.answers import Answer, chat_completion, response
from iop.openai.chat_stream import ChatStream
from iop.openai.prompt import include_usage
from iop.openai.responses_stream import ResponsesStream


class EventStream(Protocol):
    """The events of one streamed answer: `start`, `delta` any number of times, `finish`."""

    def start(self) -> bytes:
        """Return the events before the first text."""

    def delta(self, text: str) -> bytes:
        """Return the event for more text."""

    def finish(self) -> bytes:
        """Return the events after the last text."""


def event_stream(request: RunRequest, serial: str, created: int) -> EventStream:
    """Return the maker of a streamed answer's events; `serial` makes its id, `created` is in Unix seconds."""
    model = request.model or "agent"
    if request.operation == "responses":
        return ResponsesStream(f"resp_{serial}", model, created)
    return ChatStream(f"chatcmpl-{serial}", model, created, include_usage=include_usage(request.body))


def whole(request: RunRequest, serial: str, created: int, text: str) -> bytes:
    """Return the JSON of a whole answer."""
    model = request.model or "agent"
    if request.operation == "responses":
        return json.dumps(response(f"resp_{serial}", model, created, Answer(text))).encode()
    return json.dumps(chat_completion(f"chatcmpl-{serial}", model, created, Answer(text))).encode()
