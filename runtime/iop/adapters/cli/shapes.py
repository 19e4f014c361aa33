"""The answer of an agent in the shape of the API that was asked."""

import json
from typing import Protocol

from iop.adapters.cli.agent import NewMessage, Said, SaidAgain
from iop.adapters.contract import RunRequest
from iop.openai.answers import Answer, FinishReason, Usage, chat_completion, response
from iop.openai.chat_stream import ChatStream
from iop.openai.prompt import include_usage
from iop.openai.responses_stream import ResponsesStream

#: what stands between two messages of one answer
BETWEEN = "\n\n"


class EventStream(Protocol):
    """The events of one streamed answer: `start`, `delta` any number of times, `finish`."""

    def start(self) -> bytes:
        """Return the events before the first text."""

    def delta(self, text: str) -> bytes:
        """Return the event for more text."""

    def finish(self, reason: FinishReason = "stop", usage: Usage | None = None) -> bytes:
        """Return the events after the last text."""


def event_stream(request: RunRequest, serial: str, created: int) -> EventStream:
    """Return the maker of a streamed answer's events; `serial` makes its id, `created` is in Unix seconds."""
    model = request.model or "agent"
    if request.operation == "responses":
        return ResponsesStream(f"resp_{serial}", model, created)
    return ChatStream(f"chatcmpl-{serial}", model, created, include_usage=include_usage(request.body))


class Spoken:
    """What an agent has said so far; between its messages stands an empty line."""

    def __init__(self) -> None:
        self._messages: list[list[str]] = [[]]
        self._told = False
        self._apart = ""
        self.usage: Usage | None = None

    def add(self, said: Said) -> str:
        """Take what was said; return what a stream tells of it now, which can take nothing back."""
        match said:
            case str():
                self._messages[-1].append(said)
                apart, self._apart = self._apart, ""
                self._told = True
                return apart + said
            case NewMessage():
                self._messages.append([])
                self._apart = BETWEEN if self._told else ""
            case SaidAgain():
                self._messages[-1].clear()
            case Usage():
                self.usage = said
        return ""

    def text(self) -> str:
        """Return the whole text, without what was said again."""
        return BETWEEN.join("".join(message) for message in self._messages if message)


def whole(request: RunRequest, serial: str, created: int, spoken: Spoken) -> bytes:
    """Return the JSON of a whole answer."""
    model = request.model or "agent"
    answer = Answer(spoken.text(), usage=spoken.usage)
    if request.operation == "responses":
        return json.dumps(response(f"resp_{serial}", model, created, answer)).encode()
    return json.dumps(chat_completion(f"chatcmpl-{serial}", model, created, answer)).encode()
