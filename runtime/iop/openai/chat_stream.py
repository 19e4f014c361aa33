"""A chat completion as a stream of chunks."""

import json
from typing import Any

from iop.openai.answers import FinishReason, Usage, chat_usage

DONE = b"data: [DONE]\n\n"


class ChatStream:
    """Makes the chunks of one streamed completion: `start`, `delta` any number of times, `finish`.

    `include_usage` is the request's `stream_options.include_usage`: every chunk then has `usage`, null but for an
    extra last one without choices. `created` is in Unix seconds.
    """

    def __init__(self, completion_id: str, model: str, created: int, *, include_usage: bool = False) -> None:
        self._head = {
            "id": completion_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._include_usage = include_usage
        before, self._after = self._chunk({"content": ""}, None).split(b'"content":""')
        self._before = before + b'"content":'

    def start(self) -> bytes:
        """Return the first chunk, which tells the role."""
        return self._chunk({"role": "assistant", "content": ""}, None)

    def delta(self, text: str) -> bytes:
        """Return the chunk for more text; nothing for no text."""
        return self._before + json.dumps(text).encode() + self._after if text else b""

    def finish(self, reason: FinishReason = "stop", usage: Usage | None = None) -> bytes:
        """Return the last chunk, the usage chunk where it was asked for and the tokens are known, and `[DONE]`."""
        out = self._chunk({}, reason)
        if self._include_usage and usage is not None:
            out += _event({**self._head, "choices": [], "usage": chat_usage(usage)})
        return out + DONE

    def _chunk(self, delta: dict[str, str], reason: FinishReason | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        chunk: dict[str, Any] = {**self._head, "choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return _event(chunk)


def _event(value: dict[str, Any]) -> bytes:
    # ASCII only: no character that some client takes for a line end, no half surrogate that fails to encode
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
