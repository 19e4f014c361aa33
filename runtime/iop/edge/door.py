"""The door: sole owner of the admission state. Decisions are synchronous; waiting is one future per request.

Requests come in as tickets. A ticket waits for a lease; the lease is given back through the door, once, by whoever
watched the work end (never by the HTTP handler that happens to be around).
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from iop.domain.admission import Admission
from iop.domain.effects import Effects, EffectType, Lease, Load, Outcome
from iop.domain.errors import IopError
from iop.domain.snapshots import NodeState, PoolSnapshot
from iop.domain.specs import Ask, PoolSpec

Publish = Callable[[Effects], None]

#: turns of the loop that a holder may take to begin with its slot before nobody waits for it; it takes about three
MAX_TURNS = 1000


class Ticket:
    """One request's place: in line, or holding a lease, or done."""

    def __init__(self, door: "Door", request_id: str) -> None:
        self._door = door
        self.request_id = request_id
        self._future: asyncio.Future[Lease] = door.loop.create_future()
        self.started = False
        #: how it ended without a run that its holder could tell of: refused, expired, failed, abandoned, cancelled
        self.fate: str | None = None

    async def lease(self) -> Lease:
        """Wait for a slot. Raises the IopError that ended the wait (refused, expired, no candidate left)."""
        lease = await asyncio.shield(self._future)
        self.started = True
        return lease

    @property
    def handed_over(self) -> bool:
        """True from the grant until its holder goes on with it."""
        future = self._future
        return not self.started and future.done() and not future.cancelled() and future.exception() is None

    @property
    def refused(self) -> bool:
        """True when there is nothing to wait for: the answer is an error."""
        return self._future.done() and not self._future.cancelled() and self._future.exception() is not None

    def leave(self) -> None:
        """The client is gone: leave the line, or give a lease back that nothing was started for. Idempotent."""
        self._door.forget(self)
        if self.started:
            return
        self.started = True
        future = self._future
        if not future.done():
            future.cancel()
            self.fate = "abandoned"
            self._door.abandon(self.request_id)
        elif not future.cancelled() and future.exception() is None:
            self.fate = "cancelled"
            self._door.end(future.result(), Outcome.CANCELLED, "client_left")

    def settle(self, result: Lease | IopError) -> None:
        """Called by the door: the wait is over."""
        if self._future.done():
            return
        if isinstance(result, IopError):
            self._future.set_exception(result)
            self._future.exception()  # a client that left at this moment will not ask for it
        else:
            self._future.set_result(result)

    def wait_again(self) -> None:
        """Called by the door: the grant was taken back, the request is in line again."""
        self._future = self._door.loop.create_future()
        self.started = False


class Door:
    """Admission with asyncio around it. `publish` gets every effect in order (the feed's place)."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, publish: Publish) -> None:
        self.loop = loop
        self._admission = Admission()
        self._publish = publish
        self._tickets: dict[str, Ticket] = {}
        self._timer: asyncio.Handle | None = None
        self._due = 0.0
        self._numbers = itertools.count(2)
        self._idle_waiters: list[asyncio.Future[None]] = []

    def configure(self, pool: PoolSpec) -> None:
        """Take a new pool over: the first one, or that of a refresh."""
        self._act(self._admission.configure(pool, self.loop.time()))

    def ask(self, ask: Ask) -> Ticket:
        """Ask for a slot. The ticket's `lease()` tells the outcome.

        The ticket's id is the request's own; while another request of the same id is here, a number is added.
        """
        request_id = ask.request_id
        while request_id in self._tickets:
            request_id = f"{ask.request_id}~{next(self._numbers)}"
        ticket = self._tickets[request_id] = Ticket(self, request_id)
        self._act(self._admission.ask(replace(ask, request_id=request_id), self.loop.time()))
        return ticket

    def forget(self, ticket: Ticket) -> None:
        """The request is over for its client; its id may be used again."""
        if self._tickets.get(ticket.request_id) is ticket:
            del self._tickets[ticket.request_id]

    def abandon(self, request_id: str) -> None:
        """The client of a waiting request left."""
        self._act(self._admission.abandon(request_id, self.loop.time()))

    def end(self, lease: Lease, outcome: Outcome, reason: str | None = None) -> None:
        """The work of this lease has really ended."""
        self._act(self._admission.end(lease.id, outcome, self.loop.time(), reason=reason))

    def give_back(self, lease: Lease, failure: str, detail: str | None = None) -> None:
        """The work failed before any status came: back to the line, or its ticket gets the error."""
        self._act(self._admission.give_back(lease.id, failure, self.loop.time(), detail=detail))

    def heard(self, lease: Lease) -> None:
        """A byte of this work came. It only puts off what the timer is set for, so the timer is left alone."""
        if effects := self._admission.sign_of_life(lease.id, self.loop.time()):
            self._act(effects)

    def held_up(self, lease: Lease) -> None:
        """The client of this work does not read, so that nothing more of it can come."""
        self._act(self._admission.held_up(lease.id, self.loop.time()))

    def resumed(self, lease: Lease) -> None:
        """The client that held its work up reads again."""
        self._act(self._admission.resumed(lease.id, self.loop.time()))

    def unheard(self, lease: Lease) -> None:
        """The client of this work has left; what goes on of it is not passed on."""
        self._act(self._admission.unheard(lease.id, self.loop.time()))

    def node_state(self, node_id: str) -> NodeState | None:
        """A node's state; None for one that was never heard of."""
        return self._admission.node_state(node_id)

    def node_connected(self, node_id: str, epoch: int, running: Sequence[tuple[str, str]]) -> dict[str, Lease]:
        """A node's link is up. Returns the adopted leases by request id."""
        effects = self._admission.node_connected(node_id, epoch, self.loop.time(), running)
        self._act(effects)
        return {e.lease.request_id: e.lease for e in effects if e.type is EffectType.ADOPTED and e.lease}

    def node_lost(self, node_id: str, epoch: int) -> None:
        """A node's link is gone; its runs are settled by their watchers right after."""
        self._act(self._admission.node_lost(node_id, epoch, self.loop.time()))

    def node_stopping(self, node_id: str) -> None:
        """A connected node says that it is leaving."""
        self._act(self._admission.node_stopping(node_id, self.loop.time()))

    def provider_health(self, provider_id: str, *, up: bool, reason: str | None) -> None:
        """A probe's result came in."""
        self._act(self._admission.provider_health(provider_id, up, reason, self.loop.time()))

    def probe_silent(self, provider_id: str) -> None:
        """The engine has work and does not answer its probe."""
        self._act(self._admission.probe_silent(provider_id, self.loop.time()))

    def drain(self, node_id: str, lease_s: float, reason: str | None) -> None:
        """Hand nothing new to the node for `lease_s` seconds, or until undrained."""
        now = self.loop.time()
        self._act(self._admission.drain(node_id, now + lease_s, reason, now))

    def undrain(self, node_id: str) -> None:
        """End the drain lease."""
        self._act(self._admission.undrain(node_id, self.loop.time()))

    def shut_down(self) -> None:
        """Refuse newcomers; waiters keep their places."""
        self._act(self._admission.shut_down(self.loop.time()))

    def expire_all(self) -> None:
        """End every wait with 503 shutting_down."""
        self._act(self._admission.expire_all(self.loop.time()))

    def snapshot(self) -> PoolSnapshot:
        """Everything admission knows, now."""
        return self._admission.snapshot(self.loop.time())

    def load(self) -> Load:
        """Slots, held slots and waiters, now."""
        return self._admission.load()

    async def idle(self) -> None:
        """Wait until nothing is held and nobody waits."""
        while (load := self._admission.load()).in_flight or load.queued:
            waiter = self.loop.create_future()
            self._idle_waiters.append(waiter)
            await waiter

    async def begun(self) -> None:
        """Return at a moment at which every holder of a slot has begun with it, so that what follows comes after.

        Under a flood of grants there may be no such moment; after MAX_TURNS turns of the loop this returns anyway.
        """
        for _ in range(MAX_TURNS):
            if not any(ticket.handed_over for ticket in self._tickets.values()):
                return
            await asyncio.sleep(0)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _act(self, effects: Effects) -> None:
        self._publish(effects)
        for effect in effects:
            ticket = self._tickets.get(effect.request_id) if effect.request_id is not None else None
            if ticket is None:
                continue
            if effect.type is EffectType.GRANTED and effect.lease is not None:
                ticket.settle(effect.lease)
            elif effect.type is EffectType.RETURNED:
                ticket.wait_again()
            elif effect.error is not None:
                ticket.fate = "failed" if effect.type is EffectType.ENDED else effect.type.value
                if effect.type is EffectType.ENDED:
                    ticket.wait_again()
                ticket.settle(effect.error)
        self._wake_idle()
        self._arm()

    def _wake_idle(self) -> None:
        if self._idle_waiters and not ((load := self._admission.load()).in_flight or load.queued):
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _arm(self) -> None:
        wakeup = self._admission.next_wakeup()
        if self._timer is not None:
            # asked of our own note: a uvloop timer that is due within half a millisecond does not tell when
            if wakeup is not None and self._due <= wakeup:
                return  # an early tick changes nothing; re-arming for every request would
            self._timer.cancel()
            self._timer = None
        if wakeup is not None:
            self._due = wakeup
            self._timer = self.loop.call_at(wakeup, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._act(self._admission.tick(self.loop.time()))
