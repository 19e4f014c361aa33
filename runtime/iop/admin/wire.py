"""What the typed clients share: their errors, reading answers, and reading server-sent events."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

#: seconds for one whole call, unless the caller says otherwise
DEFAULT_TIMEOUT_S = 10.0
#: seconds without a byte after which an event stream counts as lost: four of the Edge's 15 s keep-alives
EVENT_SILENCE_S = 60.0


class AdminUnreachable(Exception):
    """The address does not answer: refused, silent, cut, or something else than iop."""


class AdminRefused(Exception):
    """The answer is an error of iop's own. `status` is the HTTP status, `code` the stable code if there is one."""

    def __init__(self, message: str, *, status: int, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of an Edge: its number, its type and its JSON data."""

    id: int | None
    type: str
    data: dict[str, Any]


class EventReader:
    """Turns lines of an event stream into events; comments and unknown fields are skipped."""

    def __init__(self) -> None:
        self._id: int | None = None
        self._type = "message"
        self._data: list[str] = []

    def feed(self, line: str) -> ServerEvent | None:
        """Take one line without its end; an empty one completes the event."""
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id" and value.isdigit():
            self._id = int(value)
        elif name == "event":
            self._type = value
        elif name == "data":
            self._data.append(value)
        return None

    def _complete(self) -> ServerEvent | None:
        type_, data = self._type, self._data
        self._type, self._data = "message", []
        if not data:
            return None
        try:
            body = json.loads("\n".join(data))
        except ValueError as error:
            raise AdminUnreachable(f"the event stream carries something that is no JSON: {error}") from error
        if not isinstance(body, dict):
            raise AdminUnreachable("the event stream carries something that is no JSON object")
        return ServerEvent(self._id, type_, body)


def read_events(lines: Iterator[str]) -> Iterator[ServerEvent]:
    """Yield the events of an event stream's lines."""
    reader = EventReader()
    for line in lines:
        event = reader.feed(line)
        if event is not None:
            yield event


def read_object(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of a successful answer.

    Raises AdminRefused for an error of iop's own, AdminUnreachable for an answer that cannot be iop's.
    """
    if not response.is_success:
        raise refusal_of(response)
    return _object(response)


def refusal_of(response: httpx.Response) -> AdminRefused:
    """Make the error for a refused call out of iop's error object. Raises AdminUnreachable when it is not iop's."""
    status = response.status_code
    error = _object(response).get("error")
    if not isinstance(error, dict):
        return AdminRefused(f"refused with HTTP {status}", status=status)
    code = error.get("code")
    message = str(error.get("message") or f"refused with HTTP {status}")
    return AdminRefused(message, status=status, code=code if isinstance(code, str) else None)


def unreachable(base_url: str, error: httpx.HTTPError) -> AdminUnreachable:
    """Make the error for a call that got no answer, in words that name the address and the reason."""
    reason = "it did not answer in time" if isinstance(error, httpx.TimeoutException) else str(error).rstrip(".")
    return AdminUnreachable(f"{base_url} cannot be reached: {reason or type(error).__name__}")


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError as error:
        raise AdminUnreachable(
            f"{response.request.url} answered {response.status_code} without JSON: is that an iop port?"
        ) from error
    if not isinstance(body, dict):
        raise AdminUnreachable(f"{response.request.url} answered something that is no JSON object: is that iop?")
    return body
