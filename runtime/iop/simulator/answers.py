"""What the simulator says: deterministic tokens, in the shapes of chat completions and of responses.

A chat answer cut by the request's limit finishes with `length`; a response is `completed` all the same, as with
llama.cpp.
"""

from typing import Any

from iop.openai.answers import Answer, FinishReason, Usage, chat_completion, response
from iop.openai.chat_stream import ChatStream
from iop.openai.responses_stream import ResponsesStream
from iop.simulator.asked import Asked


def token(number: int) -> str:
    """Return the text of one token; `number` counts from 0."""
    return f" token{number + 1}" if number else "token1"


class Said:
    """The answer to one request; `serial` makes its id, `created` is in Unix seconds."""

    def __init__(self, asked: Asked, serial: int, created: int) -> None:
        self._asked = asked
        self._created = created
        self._chat = asked.operation == "chat.completions"
        self._id = f"chatcmpl-sim-{serial}" if self._chat else f"resp_sim{serial}"
        self._reason: FinishReason = "length" if self._chat and asked.limited else "stop"
        self._usage = Usage(input_tokens=asked.prompt_tokens, output_tokens=asked.tokens)

    def whole(self) -> dict[str, Any]:
        """Return the JSON of a non-streamed answer."""
        text = "".join(map(token, range(self._asked.tokens)))
        shape = chat_completion if self._chat else response
        return shape(self._id, self._asked.model, self._created, Answer(text, self._reason, self._usage))

    def stream(self) -> ChatStream | ResponsesStream:
        """Return the maker of a streamed answer's events."""
        if self._chat:
            include_usage = self._asked.include_usage
            return ChatStream(self._id, self._asked.model, self._created, include_usage=include_usage)
        return ResponsesStream(self._id, self._asked.model, self._created)

    def closing(self, stream: ChatStream | ResponsesStream) -> bytes:
        """Return the events after the last token of that stream."""
        return stream.finish(self._reason, self._usage)
