"""Repairing the Responses stream of an engine that leaves out what clients build their final object from.

llama.cpp, and Lemonade over it, send neither `sequence_number` nor `output_index` nor `content_index`, and begin with
a response that has no `output`, no `created_at` and no `model`: clients raise on them, or call a whole answer an error.
Nothing else of a stream is changed.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from iop.domain.errors import BadRequest
from iop.openai.request import read_request
from iop.openai.sse import MAX_EVENT, EventSplitter, EventTooLargeError, parse_event

_DATA_LINE = re.compile(rb"(?:^|(?<=[\r\n]))data:[^\r\n]*")
_BEGINNINGS = frozenset({"response.created", "response.queued", "response.in_progress"})
#: events that speak of one part of an item's content
_OF_A_PART = re.compile(r"response\.(?:content_part|output_text|refusal|reasoning_text)\.")


class ResponsesRepair:
    """Passes one stream on, each event as soon as it is whole, with the places and numbers that it lacks.

    A stream whose first response event has a `sequence_number` passes untouched, and from then on without being
    looked at. Comments, line ends, `[DONE]`, error objects and all values that the engine did send keep their bytes.
    An event of more than `max_event` bytes passes as it is.

    `request` is the body that the engine got: the model that it names is what such an engine's last event tells.
    `created`: when the answer began, in Unix seconds.
    """

    def __init__(self, request: bytes, created: int, max_event: int = MAX_EVENT) -> None:
        self._request = request
        self._created = created
        self._max_event = max_event
        self._splitter = EventSplitter(max_event)
        self._untouched = False
        self._decided = False
        #: inside an event that is too large: how many bytes at the splitter's beginning are already passed on
        self._passed: int | None = None
        self._next = 0
        self._items = _Items()

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes from the engine and return what can be passed on now."""
        return data if self._untouched else b"".join(self._now(data))

    def _now(self, data: bytes) -> Iterator[bytes]:
        try:
            pieces, too_large = self._splitter.feed(data), False
        except EventTooLargeError as error:
            pieces, too_large = error.pieces, True
        if pieces and self._passed is not None:
            yield pieces.pop(0)[self._passed :]
            self._passed = None
        for number, piece in enumerate(pieces):
            yield self._repaired(piece)
            if self._untouched:
                yield from (*pieces[number + 1 :], self._splitter.held)
                return
        if too_large or self._passed is not None:
            yield self._let_go()

    def rest(self) -> bytes:
        """Return what is still held once the engine has ended its stream: an event without its empty line."""
        held = b"" if self._untouched else self._splitter.held[self._passed or 0 :]
        return self._repaired(held)

    def _let_go(self) -> bytes:
        """Return the beginning of an event that is too large to be held; of it only a last line end is remembered."""
        held = self._splitter.held
        out = held[self._passed or 0 :]
        last = held[-2:]
        line_end = last[len(last.rstrip(b"\r\n")) :]
        self._splitter = EventSplitter(self._max_event)
        self._splitter.feed(line_end)
        self._passed = len(line_end)
        return out

    def _repaired(self, piece: bytes) -> bytes:
        """Return one event with what it lacks."""
        # one more than can be held, so that the cut of the stream into chunks makes no difference
        event = parse_event(piece) if len(piece) <= self._max_event + 1 else None
        data = None if event is None else _load(event.data)
        if data is None or not isinstance(data.get("type"), str):
            return piece
        if not self._decided:
            self._decided = True
            self._untouched = data.get("sequence_number") is not None
        if self._untouched:
            return piece
        lacks = self._lacking(data)
        response = data.get("response")
        if data["type"] in _BEGINNINGS and isinstance(response, dict) and (more := self._lacking_at_first(response)):
            return _rewritten(piece, data | {"response": response | more} | lacks)
        return _completed(piece, lacks) if lacks else piece

    def _lacking_at_first(self, response: dict[str, Any]) -> dict[str, Any]:
        """Return the members that the response of a beginning lacks."""
        whole: dict[str, Any] = {"created_at": self._created, "output": []}
        if response.get("model") is None and self._model is not None:
            whole["model"] = self._model
        return {name: value for name, value in whole.items() if response.get(name) is None}

    @cached_property
    def _model(self) -> str | None:
        """The model that the request names: read once, and only for an engine that leaves it out."""
        try:
            return read_request(self._request).model
        except BadRequest:
            return None

    def _lacking(self, data: dict[str, Any]) -> dict[str, int]:
        """Return the members that an event lacks, noting those it has."""
        place: dict[str, int] = {}
        kind = data["type"]
        is_of_a_part = bool(_OF_A_PART.match(kind))
        if is_of_a_part or "item" in data or "item_id" in data:
            item = self._items.item_of(kind, data)
            place["output_index"] = item.index
            if is_of_a_part:
                place["content_index"] = item.part_of(kind, data)
        number = data.get("sequence_number")
        place["sequence_number"] = number if isinstance(number, int) else self._next
        self._next = place["sequence_number"] + 1
        return {name: value for name, value in place.items() if data.get(name) is None}


@dataclass(slots=True)
class _Item:
    """One output item of a response. `names`: the ids that events call it by."""

    index: int
    names: frozenset[str]
    parts: int = 0
    is_open: bool = True

    def part_of(self, kind: str, data: dict[str, Any]) -> int:
        """Return the index of the content part that an event speaks of: the newest one."""
        own = data.get("content_index")
        if kind == "response.content_part.added":
            self.parts = 1 + (own if isinstance(own, int) else self.parts)
        return max(self.parts - 1, 0)


@dataclass(slots=True)
class _Items:
    """The output items of one response, in the order in which they began."""

    known: list[_Item] = field(default_factory=list)

    def item_of(self, kind: str, data: dict[str, Any]) -> _Item:
        """Return the item that an event speaks of; without any name it is the newest one."""
        names = _names(data)
        if kind == "response.output_item.added":
            return self._new(names, data)
        same = (item for item in reversed(self.known) if not names or item.names & names)
        if kind == "response.output_item.done":
            # items that share a name end in the order in which they began
            found = next((item for item in reversed(list(same)) if item.is_open), None) or self._new(names, data)
            found.is_open = False
            return found
        return next(same, None) or (self.known[-1] if self.known else self._new(names, data))

    def _new(self, names: frozenset[str], data: dict[str, Any]) -> _Item:
        own = data.get("output_index")
        following = max((item.index for item in self.known), default=-1) + 1
        self.known.append(_Item(own if isinstance(own, int) else following, names))
        return self.known[-1]


def _names(data: dict[str, Any]) -> frozenset[str]:
    """Return the ids in an event: llama.cpp calls a function call by its `call_id` in `item_id`."""
    item = data.get("item")
    inner = item if isinstance(item, dict) else {}
    return frozenset(
        name for name in (data.get("item_id"), inner.get("id"), inner.get("call_id")) if isinstance(name, str) and name
    )


def _load(text: str) -> dict[str, Any] | None:
    """Read an event's data; None if it is no JSON object."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _completed(piece: bytes, members: dict[str, int]) -> bytes:
    """Return an event with members added at the end of its object; every byte that it had is kept."""
    end = max(piece.rfind(b"}", line.start(), line.end()) for line in _DATA_LINE.finditer(piece))
    return piece[:end] + b"".join(b',"%s":%d' % (name.encode(), value) for name, value in members.items()) + piece[end:]


def _rewritten(piece: bytes, data: dict[str, Any]) -> bytes:
    """Return an event with other data, its further lines and its line ends kept."""
    lines = list(_DATA_LINE.finditer(piece))
    text = b"data: " + json.dumps(data, separators=(",", ":")).encode()
    return piece[: lines[0].start()] + text + piece[lines[-1].end() :]
