"""The door: sole owner of the admission state. Decisions are synchronous; tickets wait for them.

A lease is given back through the door, once, by whoever watched the work end (never by the HTTP handler that happens
to be around).
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from iop.domain.admission import Admission
from iop.domain.effects import Effect, Effects, EffectType, Lease, Load, Outcome
from iop.domain.snapshots import NodeState, PoolSnapshot
from iop.domain.specs import Ask, PoolSpec
from iop.edge.ticket import Ticket

Publish = Callable[[Effects], None]

#: turns of the loop that a holder may take to begin with its slot before nobody waits for it; it takes about three
MAX_TURNS = 1000


class Door:
    """Admission with asyncio around it. `publish` gets every effect in order (the feed's place).

    `handed_over` are the tickets with a slot that their holders have not gone on with yet.
    """

    def __init__(self, *, loop: asyncio.AbstractEventLoop, publish: Publish) -> None:
        self.loop = loop
        self.handed_over: set[Ticket] = set()
        self._admission = Admission()
        self._publish = publish
        self._tickets: dict[str, Ticket] = {}
        self._untold: deque[Effect] = deque()
        self._telling = False
        self._timer: asyncio.Handle | None = None
        self._due = 0.0
        self._numbers = itertools.count(2)
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._at_once = True

    def configure(self, pool: PoolSpec) -> None:
        """Take a new pool over: the first one, or that of a refresh.

        What this grants is begun with in a later turn, when the whole Edge has the new config and its nodes were sent
        it: a run must not reach a node before the capacity that it counts on.
        """
        self._at_once = False
        try:
            self._act(self._admission.configure(pool, self.loop.time()))
        finally:
            self._at_once = True

    def ask(self, ask: Ask) -> Ticket:
        """Ask for a slot. The ticket's `lease()` tells the outcome.

        The ticket's id is the request's own; while another request of the same id is here, a number is added.
        """
        request_id = ask.request_id
        while request_id in self._tickets:
            request_id = f"{ask.request_id}~{next(self._numbers)}"
        ticket = self._tickets[request_id] = Ticket(self, request_id)
        if request_id != ask.request_id:
            ask = replace(ask, request_id=request_id)
        self._act(self._admission.ask(ask, self.loop.time()))
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
            if not self.handed_over:
                return
            await asyncio.sleep(0)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _act(self, effects: Effects) -> None:
        """Publish what happened, then tell the tickets, in order. What a callback of theirs does is told after it."""
        self._publish(effects)
        if self._telling:
            self._untold.extend(effects)
            return
        self._telling = True
        try:
            for effect in effects:
                self._tell(effect)
            while self._untold:
                self._tell(self._untold.popleft())
        finally:
            self._telling = False
        self._wake_idle()
        self._arm()

    def _tell(self, effect: Effect) -> None:
        kind, ticket = effect.type, self._tickets.get(effect.request_id) if effect.request_id is not None else None
        if ticket is None:
            return
        if kind is EffectType.GRANTED:
            if effect.lease is not None:
                ticket.settle(effect.lease, at_once=self._at_once)
        elif kind is EffectType.ENDED or kind is EffectType.RETURNED:
            if not ticket.holds(effect.lease):
                return  # an earlier request of this id, whose client has left
            if kind is EffectType.RETURNED:
                ticket.wait_again()
            elif effect.error is not None:
                ticket.wait_again()
                ticket.fate = "failed"
                ticket.settle(effect.error)
        elif effect.error is not None:
            ticket.fate = kind.value
            ticket.settle(effect.error)

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
