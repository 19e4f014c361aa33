"""Watching a stream that passes by: whether it ends as its API wants, and how the client is told if it does not.

The watch reads as little as it can: token chunks are looked through for a few marks, and only events that carry one
are read as JSON.
"""

import json
import re
from typing import Any

import msgspec

from iop.domain.errors import IopError
from iop.openai.answers import response_skeleton
from iop.openai.errors import error_object, shortened
from iop.openai.halfjson import completion
from iop.openai.paths import Operation
from iop.openai.responses_stream import response_event
from iop.openai.sse import EventSplitter, EventTooLargeError, SSEEvent, event_data, parse_event
from iop.openai.told_errors import ToldError, told_error

_DONE = "[DONE]"
_CHAT_MARK = re.compile(rb'"error"|\[DONE\]|(?:^|[\r\n])event: ?error')
_RESPONSES_MARK = re.compile(
    rb'response\.(?:created|queued|in_progress|completed|incomplete|failed)\b|"error"|(?:^|[\r\n])event: ?error'
)
#: plain texts of which each mark holds one: a search for them is many times faster than that for the marks
_CHAT_HINTS = (b"error", b"[DONE]")
_RESPONSES_HINTS = (
    b"error", b"response.created", b"response.queued", b"response.in_progress",
    b"response.completed", b"response.incomplete", b"response.failed",
)  # fmt: skip
_LONGEST_HINT = max(map(len, _CHAT_HINTS + _RESPONSES_HINTS))
_SEQUENCE_NUMBER = re.compile(rb'"sequence_number"\s*:\s*(\d{1,15})\b')
_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})


class _Named(msgspec.Struct):
    """The one member of a whole response that is of interest."""

    id: str


_NAMED = msgspec.json.Decoder(_Named)
#: bytes at the beginning of a long response in which its id is looked for
_NEAR = 64 * 1024


def response_id(body: bytes) -> str | None:
    """Return the id of a whole response; None if the body is none."""
    try:
        return _NAMED.decode(body).id
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def begun_response_id(begun: bytes) -> str | None:
    """Return the id of a response of which `begun` is the first part; None if it does not stand near the beginning."""
    near = begun[:_NEAR]
    tail = completion(near, b'"x":0')
    return None if tail is None else response_id(near + tail)


class StreamWatch:
    """Watches one answer stream of an engine or agent.

    terminal              the API's own end was seen: `[DONE]`, or a terminal response event
    error                 the stream itself told a failure, whatever came after it
    begun                 at least one event with data has passed
    response_id           of a responses stream, once it was told
    next_sequence_number  that a further event of a responses stream has to carry

    `request_id`, `model` and `created` (Unix seconds) stand in where a stream breaks off before it told its own.
    """

    def __init__(self, operation: Operation, *, request_id: str = "", model: str = "", created: int = 0) -> None:
        self.operation = operation
        self.terminal = False
        self.error = False
        self.begun = False
        self.response_id: str | None = None
        self.next_sequence_number = 0
        self._request_id = request_id
        self._model = model
        self._created = created
        is_chat = operation == "chat.completions"
        self._hints: tuple[bytes, ...] = _CHAT_HINTS if is_chat else _RESPONSES_HINTS
        self._mark = _CHAT_MARK if is_chat else _RESPONSES_MARK
        self._splitter = EventSplitter()
        self._lost = False
        #: what is held of an event has a hint in it
        self._is_wary = False
        #: the engine's own words for its failure, and whether they stood in an error object, which clients raise on
        self._told: ToldError | None = None
        self._told_by_object = False

    def feed(self, data: bytes) -> None:
        """Take the bytes that were passed to the client, in order and all of them."""
        if self.begun and not self._lost and not self._is_wary and self._passes(data):
            return
        before = self._splitter.tail(_LONGEST_HINT)
        try:
            pieces, too_large = self._splitter.feed(data), False
        except EventTooLargeError as error:
            # it passes unread; what follows its end is read again
            pieces, too_large = error.pieces, True
            self._splitter = EventSplitter()
        for piece in pieces:
            self._note(piece)
        self._lost = too_large or (self._lost and not pieces)
        # a large event comes in many parts: what is held of it is looked through once, not with each of them
        held = self._splitter.pending if pieces or too_large else before + data
        self._is_wary = (self._is_wary and not pieces and not too_large) or self._is_hinted(held)

    def finished_well(self, *, close_delimited: bool) -> bool:
        """Return whether a stream whose transfer ended properly is a whole answer.

        `close_delimited`: only the engine's closing of the connection told the end, so the API's own end must have
        been seen. With a proper length a chat stream may leave out `[DONE]`, as transformers does; a responses stream
        always needs its terminal event.
        """
        if self.error:
            return False
        if self.terminal:
            return True
        if self.operation == "responses":
            return False
        rest = event_data(self._splitter.pending)
        if rest is not None and rest.strip() == _DONE.encode():
            return True
        is_cut = rest is not None and completion(rest, b'"x":0') is not None
        return self.begun and not close_delimited and not is_cut

    def ending(self, error: IopError) -> bytes:
        """Return the bytes that tell `error` to a client that has got all that was fed; empty if the stream had
        already come to its own end. To be called once, as the last thing.

        An event cut in its middle is brought to an end first, as an error, so that no client takes it for text or
        for success. Chat: the error object, no `[DONE]`. Responses: `response.failed`, then the error object. An
        engine's own error that has passed is not told again, but `response.failed` has its words.
        """
        if self.terminal:
            return b""
        return self._end_open_event(error) + self._failure(error)

    def _end_open_event(self, error: IopError) -> bytes:
        """Return what ends the event that is open at the client; an LF after a CR only completes that line end."""
        pending = self._splitter.pending
        if self._lost:
            return b"\n\n"
        new_line = b"" if not pending or pending.endswith(b"\n") else b"\n"
        half = event_data(pending)
        if half is None or not half.strip():
            # nothing that a client would read yet: an empty line would make some read an empty event
            return new_line
        is_responses = self.operation == "responses"
        member = b'"error":' + _dump(error_object(error))
        # the last of two `type` members and of two `event:` lines counts: half a response.completed is no success
        tail = completion(half, b'"type":"error",' + member if is_responses else member)
        if tail is None:
            self._note(pending)
            return new_line + b"\n"
        self.error = True
        last_line = re.split(rb"[\r\n]", pending)[-1]
        in_data = last_line.startswith(b"data:")
        return (b"" if in_data else new_line + b"data: ") + tail + (b"\nevent: error\n\n" if is_responses else b"\n\n")

    def _failure(self, error: IopError) -> bytes:
        """Return the events that tell `error`, unless the stream told a failure of its own in a way that suffices."""
        if self.operation == "chat.completions":
            return b"" if self.terminal or self.error else _dump_event({"error": error_object(error)})
        if self.terminal:
            return b""
        failed = response_event("response.failed", self.next_sequence_number, {"response": self._failed(error)})
        return failed if self._told_by_object else failed + _dump_event({"error": self._words(error)})

    def _failed(self, error: IopError) -> dict[str, Any]:
        response_id = self.response_id or f"resp_{self._request_id}"
        failed = response_skeleton(response_id, self._model, self._created, "failed")
        words = self._words(error)
        failed["error"] = {name: words[name] for name in ("code", "message")}
        if self._told is not None and self._told.type is not None:
            failed["error"]["type"] = self._told.type
        return failed

    def _words(self, error: IopError) -> dict[str, Any]:
        """Return the error object for what went wrong: the engine's own words, and iop's where it has none."""
        words = error_object(error)
        if self._told is not None:
            told = {name: getattr(self._told, name) for name in words}
            words |= {name: shortened(value) for name, value in told.items() if value is not None}
        return words

    def _note(self, piece: bytes) -> None:
        if self.operation == "chat.completions":
            self._note_chat(piece)
        else:
            self._note_response(piece)

    def _note_chat(self, piece: bytes) -> None:
        if self.begun and not self._is_marked(piece):
            return
        event = parse_event(piece)
        if event is None:
            return
        self.begun = True
        if event.data.strip() == _DONE:
            self.terminal = True
        elif self._is_marked(piece):
            self._note_error(event, _load(event))

    def _note_response(self, piece: bytes) -> None:
        self._count(piece)
        if self.begun and not self._is_marked(piece):
            return
        event = parse_event(piece)
        if event is None:
            return
        self.begun = True
        data = _load(event)
        told = data.get("type")
        kind = told if isinstance(told, str) else event.event
        if isinstance(data.get("response"), dict):
            self._note_object(data["response"])
        self.terminal = self.terminal or kind in _TERMINAL
        self.error = self.error or kind == "response.failed"
        self._note_error(event, data)

    def _passes(self, data: bytes) -> bool:
        """Let bytes pass that hold nothing of interest, whatever events they are cut into; False when they must be
        read.
        """
        held = self._splitter.tail(_LONGEST_HINT)
        if self._is_hinted(data) or (held and self._is_hinted(held + data[:_LONGEST_HINT])):
            return False
        if self.operation == "responses":
            # a number may be cut in two
            if held or not data.endswith(b"\n\n"):
                return False
            self._count(data)
        return self._splitter.skip(data)

    def _is_hinted(self, data: bytes) -> bool:
        return any(map(data.__contains__, self._hints))

    def _is_marked(self, piece: bytes) -> bool:
        """Return whether one of the marks stands in these bytes."""
        return self._is_hinted(piece) and self._mark.search(piece) is not None

    def _count(self, piece: bytes) -> None:
        for number in _SEQUENCE_NUMBER.findall(piece):
            self.next_sequence_number = max(self.next_sequence_number, int(number) + 1)

    def _note_error(self, event: SSEEvent, data: dict[str, Any]) -> None:
        """Note an event that tells a failure, with the words of the first one."""
        if not _is_error(event, data):
            return
        self.error = True
        if self._told is None:
            # the type of `{"type": "error"}` names the event
            flat = {name: value for name, value in data.items() if (name, value) != ("type", "error")}
            self._told = told_error("", json.dumps(flat).encode() if data else event.data.encode())
            self._told_by_object = bool(data.get("error"))

    def _note_object(self, response: dict[str, Any]) -> None:
        """Keep what a later failure must repeat of the response."""
        if isinstance(response.get("id"), str):
            self.response_id = response["id"]
        if isinstance(response.get("model"), str):
            self._model = response["model"]
        if isinstance(response.get("created_at"), int):
            self._created = response["created_at"]
        self.error = self.error or response.get("status") in ("failed", "cancelled")


def _is_error(event: SSEEvent, data: dict[str, Any]) -> bool:
    """Return whether an event tells a failure, in one of the forms that engines use."""
    if event.event == "error" or data.get("error") or "error" in (data.get("object"), data.get("type")):
        return True
    choices = data.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") == "error" for choice in choices
    )


def _load(event: SSEEvent) -> dict[str, Any]:
    """Read an event's data; what is no JSON object is none of ours to judge and reads as empty."""
    try:
        data = json.loads(event.data)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _dump_event(data: dict[str, Any]) -> bytes:
    return b"data: " + _dump(data) + b"\n\n"


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
