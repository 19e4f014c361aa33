"""Admission: who gets a slot, who waits, and how each request ends. A pure machine, one owner (`iop.edge.door`).

Every method takes `now` (seconds, monotonic) and returns the effects of what it did, in order. A freed slot goes to
the earliest waiter that can use that provider; a slot is held until its lease is given back, exactly once.
"""

from collections.abc import Sequence

from iop.domain import nodes, pictures, refresh, refusals, returns
from iop.domain.effects import Effects, Lease, Load, Outcome
from iop.domain.fleet import Provider
from iop.domain.line import Request
from iop.domain.pool import Pool
from iop.domain.snapshots import NodeState, PoolSnapshot
from iop.domain.specs import Ask, LineBounds, PoolSpec


class Admission:
    """Slots and line of one pool. `bounds` hold until the first `configure`."""

    def __init__(self, bounds: LineBounds | None = None) -> None:
        self._pool = Pool(bounds or LineBounds())
        self._arrivals = 0
        self._leaving = False

    # -- config ------------------------------------------------------------------------------------------------------

    def configure(self, pool: PoolSpec, now: float) -> Effects:
        """Take over the first config or a refresh. New bounds hold for newcomers; deadlines in line stay."""
        refresh.apply(self._pool, pool, now)
        return self._pool.take_effects()

    # -- requests ----------------------------------------------------------------------------------------------------

    def ask(self, ask: Ask, now: float) -> Effects:
        """Ask for a slot: granted, queued or refused.

        The caller knows the model to be of the pool; one that is not is refused (model_not_found), and so is a request
        whose named provider is gone. Raises ValueError when a request of that id waits already.
        """
        request = self._arrive(ask, now)
        if candidates := self._pool.routes.candidates(request):
            self._admit(request, candidates, now, ask.key_max_waiting)
        else:
            self._pool.refuse(request, self._pool.routes.nobody_left(request))
        return self._pool.take_effects()

    def abandon(self, request_id: str, now: float) -> Effects:  # noqa: ARG002 - every event carries its time
        """Take a waiter out whose client has left. An id that does not wait: no effect."""
        place = self._pool.line.waiting.get(request_id)
        if place is not None:
            self._pool.abandon(place)
        return self._pool.take_effects()

    # -- leases ------------------------------------------------------------------------------------------------------

    def lease(self, lease_id: int) -> Lease | None:
        """Return an open lease; None when it was given back or never was."""
        held = self._pool.held.get(lease_id)
        return None if held is None else held.lease

    def end(self, lease_id: int, outcome: Outcome, now: float, *, reason: str | None = None) -> Effects:
        """Give a slot back: its work has really ended. Adopted work has no client, so its end is `cancelled`.

        A lease that is not open changes nothing and is counted as an anomaly.
        """
        held = self._pool.held.get(lease_id)
        if held is None:
            self._pool.note_bad_release(lease_id)
            return ()
        self._pool.close(held, Outcome.CANCELLED if held.request is None else outcome, reason, now)
        self._pool.dispatch([held.provider], now)
        return self._pool.take_effects()

    def give_back(self, lease_id: int, failure: str, now: float, *, detail: str | None = None) -> Effects:
        """Give a slot back because the work failed without an HTTP status and before the first byte.

        `failure` is unreachable, reset, link_lost, busy or stopping (ValueError otherwise). The request is in line
        again, with that provider excluded unless its node declined; or, with no candidate left, its grant ends as
        failed. A node that declined gets no grant for that provider until its next end, hello or good probe.
        """
        if failure not in returns.FAILURES:
            raise ValueError(f"not a failure that takes a request back to the line: {failure}")
        held = self._pool.held.get(lease_id)
        if held is None:
            self._pool.note_bad_release(lease_id)
            return ()
        returns.give_back(self._pool, held, failure, detail, now)
        return self._pool.take_effects()

    def sign_of_life(self, lease_id: int, now: float) -> Effects:
        """A byte of this work came. The cost is that of a look-up, unless this clears a suspicion. A lease that is not
        open: no effect.
        """
        held = self._pool.held.get(lease_id)
        if held is not None and held.provider.silence.heard(now):
            self._changed(held.provider, now)
        return self._pool.take_effects()

    def held_up(self, lease_id: int, now: float) -> Effects:  # noqa: ARG002 - every input carries its time
        """Nothing more of this work can come, because its client does not read. Until it does (`resumed`) the silence
        of its provider says nothing.
        """
        held = self._pool.held.get(lease_id)
        if held is not None:
            held.provider.silence.held_up.add(lease_id)
        return self._pool.take_effects()

    def resumed(self, lease_id: int, now: float) -> Effects:
        """The client of this work reads again: silence counts from now."""
        held = self._pool.held.get(lease_id)
        if held is not None:
            held.provider.silence.resumed(lease_id, now)
            self._pool.alarms.look(held.provider)
        return self._pool.take_effects()

    def unheard(self, lease_id: int, now: float) -> Effects:
        """The client of this work has left; what it goes on doing is not passed on, so its silence says nothing."""
        held = self._pool.held.get(lease_id)
        if held is not None:
            held.provider.silence.unheard(lease_id, now)
            self._pool.alarms.look(held.provider)
        return self._pool.take_effects()

    # -- nodes -------------------------------------------------------------------------------------------------------

    def node_state(self, node_id: str) -> NodeState | None:
        """Return a node's state; None for one that was never heard of."""
        node = self._pool.fleet.nodes.get(node_id)
        return None if node is None else node.state

    def node_connected(
        self,
        node_id: str,
        epoch: int,
        now: float,
        running: Sequence[tuple[str, str]] = (),
    ) -> Effects:
        """Take a node's new link into account, with the work it still runs: (provider id, request id) each.

        `epoch` grows with each link of a node; one that does not changes nothing. What is still held through an
        older link ends as failed: the shell had its chance to settle it when the link was lost.
        """
        node = self._pool.fleet.node(node_id)
        if epoch > node.epoch:
            nodes.connect(self._pool, node, epoch, now, running)
        return self._pool.take_effects()

    def node_lost(self, node_id: str, epoch: int, now: float) -> Effects:
        """Take the loss of a node's link into account; the loss of an older link changes nothing.

        Adopted work ends as failed; other leases stay until the shell settles each, right after.
        """
        node = self._pool.fleet.nodes.get(node_id)
        if node is not None and node.connected and epoch == node.epoch:
            nodes.lose(self._pool, node, now)
        return self._pool.take_effects()

    def node_stopping(self, node_id: str, now: float) -> Effects:
        """Hand nothing new to a connected node that says it is leaving; the loss of its link ends that."""
        node = self._pool.fleet.nodes.get(node_id)
        if node is not None and node.connected:
            node.stopping = True
            self._pool.show_node(node, now)
        return self._pool.take_effects()

    def provider_health(self, provider_id: str, up: bool, reason: str | None, now: float) -> Effects:  # noqa: FBT001 - the probe's answer is the subject
        """Take a probe's result (the node debounces) into account; `up` also ends a busy block."""
        provider = self._pool.fleet.providers.get(provider_id)
        if provider is not None:
            provider.up, provider.health_reason = up, None if up else reason
            provider.busy = provider.busy and not up
            provider.silence.probed(now, answered=up)
            self._changed(provider, now)
        return self._pool.take_effects()

    def probe_silent(self, provider_id: str, now: float) -> Effects:
        """The engine has work and does not answer its probe: no reason to call it down, but a sign of a wedge."""
        provider = self._pool.fleet.providers.get(provider_id)
        if provider is not None:
            provider.silence.probed(now, answered=False)
            self._pool.alarms.look(provider)
        return self._pool.take_effects()

    def drain(self, node_id: str, until: float, reason: str | None, now: float) -> Effects:
        """Hand nothing new to a node until `until` (seconds, same clock); a second drain replaces the first."""
        node = self._pool.fleet.node(node_id)
        self._pool.fleet.drain(node, until, reason)
        self._pool.show_node(node, now)
        return self._pool.take_effects()

    def undrain(self, node_id: str, now: float) -> Effects:
        """End a node's drain lease."""
        node = self._pool.fleet.nodes.get(node_id)
        if node is not None and node.drain_until is not None:
            nodes.end_drains(self._pool, [node], now)
        return self._pool.take_effects()

    # -- time and the end --------------------------------------------------------------------------------------------

    def tick(self, now: float) -> Effects:
        """Do what is due: drain leases, deadlines (`queue.max_wait`), grace (`queue.offline_grace`), suspicions."""
        pool, grace = self._pool, self._pool.bounds.offline_grace
        nodes.end_drains(pool, [node for until, node in pool.fleet.drains() if until <= now], now)
        for place in pool.line.overdue(now):
            request = place.request
            pool.expire(place, refusals.queue_timeout(request.deadline - request.arrived))
        for place in pool.line.out_of_grace(now, grace):
            request = place.request
            pool.expire(place, refusals.no_provider_available(request.model, request.only, grace, request.failures))
        pool.suspect(now)
        return pool.take_effects()

    def next_wakeup(self) -> float | None:
        """Tell when `tick` has something to do next (seconds); None = nothing is pending."""
        pool = self._pool
        due = [until for until, _ in pool.fleet.drains()]
        if (end := pool.line.next_end(pool.bounds.offline_grace)) is not None:
            due.append(end)
        if (alarm := pool.alarms.next()) is not None:
            due.append(alarm[0])
        return min(due) if due else None

    def shut_down(self, now: float) -> Effects:  # noqa: ARG002 - every event carries its time
        """Refuse newcomers from now on. Waiters keep their places and may still be granted."""
        self._leaving = True
        return ()

    def expire_all(self, now: float) -> Effects:  # noqa: ARG002 - every event carries its time
        """End every wait with 503 shutting_down: `drain_timeout` is over. Nothing gets in line after this."""
        self._leaving = self._pool.closed = True
        for place in sorted(self._pool.line.waiting.values(), key=lambda place: place.request.number):
            self._pool.expire(place, refusals.shutting_down())
        return self._pool.take_effects()

    # -- pictures ----------------------------------------------------------------------------------------------------

    def snapshot(self, now: float) -> PoolSnapshot:
        """Show everything at `now`."""
        return pictures.picture(self._pool, now)

    def load(self) -> Load:
        """Slots declared, slots held, requests waiting."""
        return self._pool.load()

    # -- inner steps -------------------------------------------------------------------------------------------------

    def _arrive(self, ask: Ask, now: float) -> Request:
        if ask.request_id in self._pool.line.waiting:
            raise ValueError(f"a request with the id {ask.request_id!r} waits already")
        self._arrivals += 1
        self._pool.ledger.received += 1
        return Request(
            id=ask.request_id,
            model=ask.model,
            number=self._arrivals,
            arrived=now,
            deadline=now + self._pool.bounds.max_wait,
            only=ask.check or ask.owner,
            is_check=ask.check is not None,
            key=ask.key,
            streams=ask.streams,
        )

    def _admit(
        self, request: Request, candidates: tuple[Provider, ...], now: float, key_max_waiting: int | None
    ) -> None:
        pool, limit = self._pool, self._pool.bounds.max_waiting
        if self._leaving:
            pool.refuse(request, refusals.shutting_down())
        elif usable := pool.usable(request, candidates):
            pool.grant(request, usable, now)
        elif len(pool.line) >= limit:
            pool.refuse(request, refusals.queue_full(limit))
        elif (
            request.key is not None
            and key_max_waiting is not None
            and pool.line.waiting_of_key(request.key) >= key_max_waiting
        ):
            pool.refuse(request, refusals.key_queue_full(key_max_waiting))
        else:
            pool.enqueue(request, candidates, now)

    def _changed(self, provider: Provider, now: float) -> None:
        """Show a provider's new state, and let waiters have what it takes now."""
        self._pool.show([provider], now)
        self._pool.dispatch([provider], now)
