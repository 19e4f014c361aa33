"""What the simulator says: deterministic tokens in the shapes and events of chat completions and of responses.

The shapes are vLLM's where engines differ: a responses answer cut by its limit ends with `response.completed` whose
response has status `incomplete`, and a responses stream has no `[DONE]`.
"""

import json
from typing import Any, Protocol

from iop.simulator.asked import Asked

Json = dict[str, Any]


class Answer(Protocol):
    """One answer, whole or as the parts of a stream; `number` counts tokens from 0."""

    def whole(self) -> Json:
        """Return the JSON of a non-streamed answer."""

    def opening(self) -> bytes:
        """Return the events before the first token."""

    def piece(self, number: int) -> bytes:
        """Return the event of one token."""

    def closing(self) -> bytes:
        """Return the events after the last token."""


def token(number: int) -> str:
    """Return the text of one token."""
    return f" token{number + 1}" if number else "token1"


def answer(asked: Asked, serial: int, created: int) -> Answer:
    """Return the answer to `asked`; `serial` makes its ids, `created` is in Unix seconds."""
    kind = ChatAnswer if asked.operation == "chat.completions" else ResponsesAnswer
    return kind(asked, serial, created)


def _text(asked: Asked) -> str:
    return "".join(token(number) for number in range(asked.tokens))


def _data(payload: Json) -> bytes:
    return f"data: {json.dumps(payload)}\n\n".encode()


class ChatAnswer:
    """`chat.completion` and `chat.completion.chunk`."""

    def __init__(self, asked: Asked, serial: int, created: int) -> None:
        self._asked = asked
        self._common = {"id": f"chatcmpl-sim-{serial}", "created": created, "model": asked.model}
        self._finish = "length" if asked.limited else "stop"

    def whole(self) -> Json:
        """Return the `chat.completion`."""
        message = {"role": "assistant", "content": _text(self._asked)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish}
        return {**self._common, "object": "chat.completion", "choices": [choice], "usage": self._usage()}

    def opening(self) -> bytes:
        """Return the chunk that names the role."""
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, number: int) -> bytes:
        """Return the chunk of one token."""
        return self._chunk({"content": token(number)})

    def closing(self) -> bytes:
        """Return the finish, the usage when asked for, and `[DONE]`."""
        usage = b""
        if self._asked.include_usage:
            usage = _data({**self._common, "object": "chat.completion.chunk", "choices": [], "usage": self._usage()})
        return self._chunk({}, self._finish) + usage + b"data: [DONE]\n\n"

    def _chunk(self, delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data({**self._common, "object": "chat.completion.chunk", "choices": [choice]})

    def _usage(self) -> Json:
        prompt, completion = self._asked.prompt_tokens, self._asked.tokens
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


class ResponsesAnswer:
    """`response` and its events, numbered from 0."""

    def __init__(self, asked: Asked, serial: int, created: int) -> None:
        self._asked = asked
        self._id = f"resp_sim_{serial}"
        self._item_id = f"msg_sim_{serial}"
        self._created = created
        self._number = 0

    def whole(self) -> Json:
        """Return the `response` as it is at the end."""
        cut = self._asked.limited
        response = self._response("incomplete" if cut else "completed")
        response["output"] = [self._item("completed", [self._part(_text(self._asked))])]
        response["incomplete_details"] = {"reason": "max_output_tokens"} if cut else None
        response["usage"] = self._usage()
        return response

    def opening(self) -> bytes:
        """Return `created`, `in_progress` and the two `added` events."""
        state = {"response": self._response("in_progress")}
        return (
            self._event("response.created", state)
            + self._event("response.in_progress", state)
            + self._event("response.output_item.added", {"output_index": 0, "item": self._item("in_progress", [])})
            + self._event("response.content_part.added", {**self._place(), "part": self._part("")})
        )

    def piece(self, number: int) -> bytes:
        """Return the delta of one token."""
        return self._event("response.output_text.delta", {**self._place(), "delta": token(number), "logprobs": []})

    def closing(self) -> bytes:
        """Return the three `done` events and `response.completed`."""
        text = _text(self._asked)
        item = self._item("completed", [self._part(text)])
        return (
            self._event("response.output_text.done", {**self._place(), "text": text, "logprobs": []})
            + self._event("response.content_part.done", {**self._place(), "part": self._part(text)})
            + self._event("response.output_item.done", {"output_index": 0, "item": item})
            + self._event("response.completed", {"response": self.whole()})
        )

    def _event(self, kind: str, fields: Json) -> bytes:
        payload = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return f"event: {kind}\n".encode() + _data(payload)

    def _place(self) -> Json:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}

    def _item(self, status: str, content: list[Json]) -> Json:
        return {"type": "message", "id": self._item_id, "status": status, "role": "assistant", "content": content}

    def _part(self, text: str) -> Json:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def _response(self, status: str) -> Json:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "model": self._asked.model,
            "output": [],
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "metadata": {},
            "usage": None,
        }

    def _usage(self) -> Json:
        prompt, completion = self._asked.prompt_tokens, self._asked.tokens
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + completion,
        }
