"""A response as a stream of events, with the complete skeleton that clients build their final object from."""

import json
from typing import Any

from iop.openai.answers import Answer, FinishReason, Usage, message_item, response, response_skeleton, text_part


def response_event(kind: str, sequence_number: int, fields: dict[str, Any]) -> bytes:
    """Return one event: its `event:` line, and data with `type` and `sequence_number` before the other fields."""
    data = json.dumps({"type": kind, "sequence_number": sequence_number, **fields}, separators=(",", ":"))
    return f"event: {kind}\ndata: {data}\n\n".encode()


class ResponsesStream:
    """Makes the events of one streamed response of one text message: `start`, `delta` any number of times, `finish`.

    Sequence numbers rise by one from 0; the final object holds exactly the deltas. `created` is in Unix seconds.
    """

    def __init__(self, response_id: str, model: str, created: int) -> None:
        self._id = response_id
        self._model = model
        self._created = created
        self._next = 0
        self._texts: list[str] = []
        self._place = {"item_id": message_item(response_id, [], "")["id"], "output_index": 0, "content_index": 0}

    def start(self) -> bytes:
        """Return the events before the first text."""
        skeleton = response_skeleton(self._id, self._model, self._created)
        item = message_item(self._id, [], "in_progress")
        return b"".join(
            (
                self._event("response.created", response=skeleton),
                self._event("response.in_progress", response=skeleton),
                self._event("response.output_item.added", output_index=0, item=item),
                self._event("response.content_part.added", **self._place, part=text_part("")),
            )
        )

    def delta(self, text: str) -> bytes:
        """Return the event for more text; nothing for no text."""
        if not text:
            return b""
        self._texts.append(text)
        return self._event("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def finish(self, reason: FinishReason = "stop", usage: Usage | None = None) -> bytes:
        """Return the events that close text, part and item, and the terminal one with the whole response."""
        text = "".join(self._texts)
        whole = response(self._id, self._model, self._created, Answer(text, reason, usage))
        terminal = "response.completed" if reason == "stop" else "response.incomplete"
        return b"".join(
            (
                self._event("response.output_text.done", **self._place, text=text, logprobs=[]),
                self._event("response.content_part.done", **self._place, part=text_part(text)),
                self._event("response.output_item.done", output_index=0, item=whole["output"][0]),
                self._event(terminal, response=whole),
            )
        )

    def _event(self, kind: str, **fields: object) -> bytes:
        number = self._next
        self._next += 1
        return response_event(kind, number, fields)
