"""Was that answer whole? What the framing of HTTP cannot tell is read from the bytes that pass."""

import json
from typing import Protocol

from iop.adapters.contract import Operation, RunEnd
from iop.domain.effects import Outcome
from iop.openai.sse import EVENT_STREAM, can_stream
from iop.openai.watch import StreamWatch
from iop.transport.engine_answer import EngineAnswer

#: bytes of a JSON answer that are kept to see whether it is whole; longer ones are taken as they come
MAX_KEPT = 16 * 1024 * 1024

COMPLETED = RunEnd(Outcome.COMPLETED)


def failed(failure: str, detail: str) -> RunEnd:
    """Return the end of a run that failed."""
    return RunEnd(Outcome.FAILED, failure, detail)


class Check(Protocol):
    """Sees the entity bytes of one answer pass."""

    def feed(self, data: bytes) -> None:
        """Look at the next bytes."""

    def verdict(self) -> RunEnd:
        """Return how the run ended, once the engine has ended the body well as far as HTTP can tell."""


def check_for(answer: EngineAnswer, operation: Operation, *, stream: bool) -> Check:
    """Return the check that fits an answer's status, type and framing."""
    if answer.status >= 500:
        return _ServerError(answer.status)
    if is_event_stream(answer, stream=stream):
        return _Stream(operation, close_delimited=answer.ends_with_connection)
    kind = _kind(answer)
    if answer.ends_with_connection and (kind == "application/json" or kind.endswith("+json")):
        return _Json(answer.status)
    return _Framed()


def is_event_stream(answer: EngineAnswer, *, stream: bool) -> bool:
    """Return whether an answer is a stream of events: by its type, or untyped when one was asked for."""
    return can_stream(answer.status) and _kind(answer) in (EVENT_STREAM, *([""] if stream else []))


def _kind(answer: EngineAnswer) -> str:
    return answer.header("content-type").partition(";")[0].strip().lower()


class _Framed:
    """HTTP's own framing is enough."""

    def feed(self, data: bytes) -> None:
        pass

    def verdict(self) -> RunEnd:
        return COMPLETED


class _ServerError(_Framed):
    """An answer, but not a success."""

    def __init__(self, status: int) -> None:
        self._status = status

    def verdict(self) -> RunEnd:
        return failed("status", f"the engine answered {self._status}")


class _Json(_Framed):
    """JSON whose end is the end of the connection (HTTP/1.0): it is whole when it parses.

    A refusal may also be plain words under a JSON label, as mlx_lm's `Not Found`: they are no JSON that was cut.
    """

    def __init__(self, status: int) -> None:
        self._is_refusal = status >= 400
        self._kept = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= MAX_KEPT:
            self._kept += data

    def verdict(self) -> RunEnd:
        try:
            if self._size <= MAX_KEPT:
                json.loads(self._kept)
        except RecursionError:  # too deep to judge
            return COMPLETED
        except ValueError:
            if self._is_refusal and not self._kept.lstrip().startswith((b"{", b"[", b'"')):
                return COMPLETED
            return failed("broken", "the connection ended in the middle of the JSON answer")
        return COMPLETED


class _Stream(_Framed):
    """Server-sent events: an error event is a failure, and the end must have been announced."""

    def __init__(self, operation: Operation, *, close_delimited: bool) -> None:
        self._watch = StreamWatch(operation)
        self._close_delimited = close_delimited

    def feed(self, data: bytes) -> None:
        self._watch.feed(data)

    def verdict(self) -> RunEnd:
        if self._watch.error:
            return failed("error_event", "the engine sent an error event")
        if not self._watch.finished_well(close_delimited=self._close_delimited):
            return failed("broken", "the stream ended without its last event")
        return COMPLETED
