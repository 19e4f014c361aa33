"""The skeleton of a streamed response, checked event by event by a small state machine."""

import json
from dataclasses import dataclass, field
from typing import Any

from iop.openai.sse import SSEParser

BEGINNINGS = ("response.created", "response.in_progress")
TERMINAL = ("response.completed", "response.incomplete", "response.failed")


def read_events(body: bytes) -> list[dict[str, Any]]:
    """The events with JSON data; an `event:` line must say what `type` says."""
    events = []
    for event in SSEParser().feed(body):
        if event.data == "[DONE]":
            continue
        data = json.loads(event.data)
        assert event.event in {None, data.get("type")}
        events.append(data)
    return events


def check_skeleton(body: bytes) -> tuple[dict[str, Any], str]:
    """Assert that a stream is a whole response; return its terminal response object and the text of its deltas."""
    events = read_events(body)
    numbers = [event["sequence_number"] for event in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[0] in {0, 1}
    assert [event["type"] for event in events[:2]] == list(BEGINNINGS)
    assert all(event["response"]["output"] == [] for event in events[:2])
    assert all(event["response"]["created_at"] > 0 and event["response"]["model"] for event in events[:2])
    assert [event["type"] in TERMINAL for event in events] == [False] * (len(events) - 1) + [True]
    machine = Machine()
    for event in events[2:-1]:
        machine.take(event)
    response: dict[str, Any] = events[-1]["response"]
    assert {event["response"]["id"] for event in (*events[:2], events[-1])} == {response["id"]}
    assert machine.open is None
    assert response["output"] == [item for _, item in sorted(machine.done.items())]
    assert "usage" in response  # null where nobody counted
    return response, machine.text


@dataclass
class Machine:
    """One item is open at a time, and in a message one part."""

    open: int | None = None
    kind: str = ""
    part: int | None = None
    parts: int = 0
    gathered: str = ""
    text: str = ""
    done: dict[int, dict[str, Any]] = field(default_factory=dict)

    def take(self, event: dict[str, Any]) -> None:
        """Take the next event; one that does not fit is an AssertionError."""
        kind, index = event["type"], event["output_index"]
        if kind == "response.output_item.added":
            assert self.open is None
            assert index == len(self.done)
            self.open, self.kind, self.parts, self.part, self.gathered = index, event["item"]["type"], 0, None, ""
            return
        assert index == self.open
        if kind == "response.output_item.done":
            assert self.part is None
            assert event["item"]["type"] == self.kind
            self.done[index], self.open = event["item"], None
        elif kind.startswith("response.function_call_arguments."):
            self._gather(event, "arguments")
        else:
            self._take_in_part(kind, event)

    def _take_in_part(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "response.content_part.added":
            assert self.part is None
            assert event["content_index"] == self.parts
            self.part, self.parts, self.gathered = self.parts, self.parts + 1, ""
            return
        assert event["content_index"] == self.part
        if kind == "response.content_part.done":
            assert event["part"]["text"] == self.gathered
            self.part = None
            return
        assert kind.startswith("response.output_text.")
        self._gather(event, "text")

    def _gather(self, event: dict[str, Any], name: str) -> None:
        if event["type"].endswith(".delta"):
            self.gathered += event["delta"]
            self.text += event["delta"] if name == "text" else ""
        else:
            assert event[name] == self.gathered
