"""One log line per request, written when it has ended, however it ended; and the same facts for the metrics.

The line is made of typed facts under fixed names. No header, no body and no message of an error is among them, so no
key, prompt or answer can come into it.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web
from aiohttp.typedefs import Middleware

from iop.domain.effects import Lease
from iop.edge.tallies import Tallies
from iop.transport.http_border import TOLD_ERROR, Handler, request_id

_log = logging.getLogger(__name__)

#: what asks again and again: told at level debug only, unless it is refused
POLLED = frozenset({"/healthz", "/readyz", "/status", "/events", "/metrics"})

Route = Literal["pool", "direct", "none"]


@dataclass(slots=True)
class Entry:
    """What is known of one request. Times are monotonic seconds; None where it does not apply."""

    began: float = field(default_factory=time.monotonic)
    route: Route = "none"
    model: str | None = None
    stream: bool | None = None
    key: str | None = None
    provider_id: str | None = None
    node_id: str | None = None
    outcome: str | None = None
    reason: str | None = None
    status: int | None = None
    error: str | None = None
    queue_ms: int | None = None
    bytes_out: int = 0
    whole_at: float | None = None
    given_at: float | None = None
    answered_at: float | None = None

    def read(self, model: str, *, stream: bool) -> None:
        """The request has come in whole."""
        self.model, self.stream, self.whole_at = model, stream, time.monotonic()

    def granted(self, lease: Lease) -> None:
        """It got a slot."""
        self.provider_id, self.node_id, self.queue_ms = lease.provider_id, lease.node_id, int(lease.waited * 1000)
        self.given_at = time.monotonic()

    def in_line_again(self) -> None:
        """Its provider could not be reached."""
        self.provider_id = self.node_id = self.given_at = None

    def given_to(self, node_id: str) -> None:
        """An agent of this node works on it."""
        self.node_id, self.given_at = node_id, time.monotonic()

    def answered(self) -> None:
        """The first byte of its answer is there."""
        self.answered_at = self.answered_at or time.monotonic()

    @property
    def first_byte_s(self) -> float | None:
        """Seconds from the whole request to the begin of its answer."""
        if self.whole_at is None or self.answered_at is None:
            return None
        return self.answered_at - self.whole_at

    def fields(self, now: float) -> dict[str, str | int | bool | None]:
        """Return the facts of the log line; times in milliseconds."""
        first = self.first_byte_s
        return {
            "route": self.route,
            "model": self.model,
            "key": self.key,
            "stream": self.stream,
            "provider_id": self.provider_id,
            "node_id": self.node_id,
            "outcome": self.outcome,
            "reason": self.reason,
            "status": self.status,
            "error": self.error,
            "queue_ms": self.queue_ms,
            "first_byte_ms": None if first is None else int(first * 1000),
            "hold_ms": None if self.given_at is None else int((now - self.given_at) * 1000),
            "total_ms": int((now - self.began) * 1000),
            "bytes_out": self.bytes_out,
        }


ENTRY = web.RequestKey("iop_journal_entry", Entry)


def entry_of(request: web.Request) -> Entry:
    """Return the entry of this request."""
    try:
        return request[ENTRY]
    except KeyError:
        made = request[ENTRY] = Entry()
        return made


def journal(tallies: Callable[[], Tallies]) -> Middleware:
    """Make the outermost middleware of a port: it sees how each request ends, the refused ones too."""

    @web.middleware
    async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
        entry = entry_of(request)
        is_gone = True
        try:
            response = await handler(request)
            is_gone = False
            entry.status = response.status
            if isinstance(response, web.Response) and not response.prepared:
                entry.bytes_out = response.content_length or 0
            return response
        except (asyncio.CancelledError, ConnectionError):
            entry.outcome = entry.outcome or "abandoned"
            raise
        finally:
            entry.error = entry.error or request.get(TOLD_ERROR)
            if entry.outcome is None:
                entry.outcome = "refused" if is_gone or entry.error else "answered"
            _close(request, entry, tallies())

    return watch


def _close(request: web.Request, entry: Entry, tallies: Tallies) -> None:
    tallies.see_answer(entry.route, entry.status, entry.error)
    if (seconds := entry.first_byte_s) is not None:
        tallies.see_first_byte(entry.model, seconds)
    is_poll = request.path in POLLED and entry.outcome != "refused"
    level = logging.DEBUG if is_poll else logging.INFO
    if _log.isEnabledFor(level):
        facts = {"request_id": request_id(request), "method": request.method, "path": request.path}
        _log.log(level, "request", extra={"fields": facts | entry.fields(time.monotonic())})
