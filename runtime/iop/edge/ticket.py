"""Tickets: one request's place at the door, from its asking to its end. Only who has to wait gets a future."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from iop.domain.effects import Lease, Outcome
from iop.domain.errors import IopError
from iop.transport.http_border import kept_apart

OnGrant = Callable[[Lease], None]


class TicketDoor(Protocol):
    """What a ticket needs of its door. `handed_over` are the tickets with a slot that nobody has gone on with yet."""

    loop: asyncio.AbstractEventLoop
    handed_over: set["Ticket"]

    def forget(self, ticket: "Ticket") -> None:
        """The request is over for its client."""

    def abandon(self, request_id: str) -> None:
        """The client of a waiting request left."""

    def end(self, lease: Lease, outcome: Outcome, reason: str | None = None) -> None:
        """The work of this lease has really ended."""


class Ticket:
    """One request's place: in line, or holding a lease, or done. One task at a time may wait for its lease."""

    __slots__ = ("_door", "_on_grant", "_result", "_waiter", "fate", "request_id", "started")

    def __init__(self, door: TicketDoor, request_id: str) -> None:
        self._door = door
        self.request_id = request_id
        self._result: Lease | IopError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._on_grant: OnGrant | None = None
        self.started = False
        #: how it ended without a run that its holder could tell of: refused, expired, failed, abandoned, cancelled
        self.fate: str | None = None

    async def lease(self) -> Lease:
        """Wait for a slot. Raises the IopError that ended the wait (refused, expired, no candidate left).

        It may be broken off and called again; a grant that was taken back meanwhile is waited for anew.
        """
        while self._result is None:
            waiter = self._waiter = self._door.loop.create_future()
            await waiter
        if isinstance(self._result, IopError):
            raise self._result
        self._begin()
        return self._result

    def on_grant(self, callback: OnGrant) -> None:
        """Call `callback(lease)` at each grant from now on, in the same turn of the loop as the end that freed the
        slot; `lease()` returns later what was granted last. A grant that came before is told by `lease()` alone.

        The callback begins with the slot: from its call on it gives the lease back. It may call the door. When it
        raises, that is logged, and the grant is that of a ticket without a callback.
        """
        self._on_grant = callback

    @property
    def handed_over(self) -> bool:
        """True from the grant until its holder goes on with it."""
        return not self.started and isinstance(self._result, Lease)

    @property
    def refused(self) -> bool:
        """True when there is nothing to wait for: the answer is an error."""
        return isinstance(self._result, IopError)

    def leave(self) -> None:
        """The client is gone: leave the line, or give a lease back that nothing was started for. Idempotent."""
        self._door.forget(self)
        self._on_grant = None
        if self.started:
            return
        self._begin()
        if self._result is None:
            if self._waiter is not None:
                self._waiter.cancel()
            self.fate = "abandoned"
            self._door.abandon(self.request_id)
        elif isinstance(self._result, Lease):
            self.fate = "cancelled"
            self._door.end(self._result, Outcome.CANCELLED, "client_left")

    def settle(self, result: Lease | IopError, *, at_once: bool = True) -> None:
        """Called by the door: the wait is over. Not `at_once`: no callback, a grant is told by `lease()` alone."""
        self._result = result
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if isinstance(result, IopError):
            return
        self._door.handed_over.add(self)
        if self._on_grant is not None and at_once:
            self._begin()
            if not kept_apart(self.request_id, partial(self._on_grant, result)):
                self.started = False
                self._door.handed_over.add(self)

    def wait_again(self) -> None:
        """Called by the door: the grant was taken back, the request is in line again."""
        self._door.handed_over.discard(self)
        self._result = None
        self.started = False

    def holds(self, lease: Lease | None) -> bool:
        """Tell whether this lease is the one that was granted last."""
        return self._result is lease

    def _begin(self) -> None:
        self.started = True
        self._door.handed_over.discard(self)
