"""The steps that admission is made of: each changes slots, line and counters together and records one effect.

`Admission` is the surface; it calls these in the order a thing happens and hands the recorded effects out.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from iop.domain import refusals
from iop.domain.alarms import Alarms
from iop.domain.effects import Effect, Effects, EffectType, Lease, Load, Outcome
from iop.domain.errors import IopError
from iop.domain.fleet import Fleet, Node, Provider
from iop.domain.ledger import Fate, Ledger
from iop.domain.line import Group, Line, Place, Request
from iop.domain.routes import Routes
from iop.domain.snapshots import ProviderState
from iop.domain.specs import LineBounds
from iop.domain.states import State

#: how many closed leases are remembered to tell a second release from one of an older link epoch
_REMEMBERED = 8192

_FATES: Mapping[Outcome, Fate] = MappingProxyType(
    {Outcome.COMPLETED: "completed", Outcome.FAILED: "failed", Outcome.CANCELLED: "cancelled"},
)


class Held(NamedTuple):
    """An open lease: who holds the slot of which provider. `request` is None for adopted work."""

    lease: Lease
    provider: Provider
    request: Request | None

    @property
    def model(self) -> str | None:
        """The model of the request; adopted work has none that is known."""
        return None if self.request is None else self.request.model


class Pool:
    """All state of admission, and its elementary steps. Times are in seconds on the caller's clock.

    `closed`: nothing gets in line any more.
    """

    def __init__(self, bounds: LineBounds) -> None:
        self.bounds = bounds
        self.wedge_after = 120.0
        self.closed = False
        self.fleet = Fleet()
        self.routes = Routes(self.fleet)
        self.line = Line()
        self.ledger = Ledger()
        self.alarms = Alarms(self.wedge_due)
        self.held: dict[int, Held] = {}
        self._closed: dict[int, tuple[str, int]] = {}
        self._last_lease = 0
        self._effects: list[Effect] = []

    def take_effects(self) -> Effects:
        """Hand out what was recorded since the last call."""
        if not self._effects:
            return ()
        effects, self._effects = tuple(self._effects), []
        return effects

    def load(self) -> Load:
        """Slots declared, held, and requests waiting."""
        return Load(self.fleet.capacity, len(self.held), len(self.line.waiting))

    def load_of(self, provider: Provider) -> Load:
        """Return the same of one provider; `queued` = waiters it could serve."""
        return Load(provider.capacity, len(provider.leases), self.line.queued_for(provider.id))

    def usable(self, request: Request, candidates: Iterable[Provider]) -> list[Provider]:
        """Return those of a newcomer's candidates that take work now: none while somebody waits for the same ones."""
        if self.line.has_group(request):
            return []
        return [provider for provider in candidates if provider.takes_work(drain_ignored=request.is_check)]

    # -- the line ----------------------------------------------------------------------------------------------------

    def enqueue(self, request: Request, candidates: tuple[Provider, ...], now: float) -> None:
        """Let a newcomer wait for one of these providers."""
        request.move(State.QUEUED)
        self._join(request, candidates, now)
        self._about(EffectType.QUEUED, request)

    def refuse(self, request: Request, error: IopError) -> None:
        """Turn a newcomer away without a place."""
        request.move(State.RUN_ERROR)
        self.ledger.refused += 1
        self._about(EffectType.REFUSED, request, error)

    def expire(self, place: Place, error: IopError) -> None:
        """Let a waiter go with an error."""
        place.request.move(State.RUN_ERROR)
        self.line.leave(place)
        self.ledger.expired += 1
        self._about(EffectType.EXPIRED, place.request, error)

    def abandon(self, place: Place) -> None:
        """Let a waiter go whose client has left."""
        place.request.move(State.RUN_ERROR)
        self.line.leave(place)
        self.ledger.abandoned += 1
        self._about(EffectType.ABANDONED, place.request)

    # -- slots -------------------------------------------------------------------------------------------------------

    def grant(self, request: Request, usable: Sequence[Provider], now: float) -> None:
        """Give one of these providers' slots to a request: choosing, claiming and counting are one step."""
        request.move(State.PROVIDER_ADMITTED)
        if request.place is not None:
            self.line.leave(request.place)
        provider = self.fleet.pick(usable)
        held = self._open(provider, request, request.id, request.model, now)
        self.ledger.count(provider.id, "admitted")
        self._about_lease(EffectType.GRANTED, held)

    def adopt(self, provider: Provider, request_id: str, now: float) -> None:
        """Count work that a node found running as held, whatever the capacity."""
        held = self._open(provider, None, request_id, "", now)
        self.ledger.count(provider.id, "adopted")
        self._about_lease(EffectType.ADOPTED, held)

    def close(
        self, held: Held, outcome: Outcome, reason: str | None, now: float, error: IopError | None = None
    ) -> None:
        """End a grant for good."""
        if held.request is not None:
            dispatched = (State.PROVIDER_DISPATCHED, State.RUN_COMPLETE)
            held.request.move(*(dispatched if outcome is Outcome.COMPLETED else (State.RUN_ERROR,)))
        self._release(held, now)
        self.ledger.count(held.provider.id, _FATES[outcome])
        self._about_lease(EffectType.ENDED, held, outcome=outcome, reason=reason, error=error)
        self._show_life(held.provider, now)

    def take_back(self, held: Held, request: Request, reason: str, now: float) -> None:
        """Return a grant before the first byte: its request is in line again, at its old place."""
        request.move(State.QUEUED)
        self._release(held, now)
        self._join(request, self.routes.candidates(request), now)
        self.ledger.count(held.provider.id, "returned")
        self._about_lease(EffectType.RETURNED, held, reason=reason)
        self._show_life(held.provider, now)

    def cut_link(self, node: Node, now: float, *, adopted_only: bool) -> list[Provider]:
        """End what is still held through a node's lost link. Work whose shell settles it itself may be left alone.

        Returns the providers of it: a refresh may have given one to another node, where its slot is free now.
        """
        cut = [held for held in self.held.values() if held.lease.node_id == node.id]
        if adopted_only:
            cut = [held for held in cut if held.request is None]
        for held in cut:
            if held.request is None:
                self.close(held, Outcome.FAILED, "link_lost", now)
            else:
                error = refusals.unreachable(held.request.model, {held.provider.id: "link_lost"})
                self.close(held, Outcome.FAILED, "link_lost", now, error)
        return [held.provider for held in cut]

    def dispatch(self, opened: Iterable[Provider], now: float) -> None:
        """Hand free slots of these providers over, earliest arrival first.

        After each step of admission no waiter has a candidate that takes work; so only providers that have just
        changed need be looked at, and a newcomer that finds a free slot passes nobody.
        """
        providers = list(opened)
        while (place := self.line.earliest(providers)) is not None and place.group is not None:
            self.grant(place.request, providers if len(providers) == 1 else place.group.usable(), now)

    def note_bad_release(self, lease_id: int) -> None:
        """Count a release of a lease that is not open, and change nothing else."""
        node_id, epoch = self._closed.get(lease_id, ("", 0))
        node = self.fleet.nodes.get(node_id)
        if node is not None and epoch < node.epoch:
            self.ledger.stale_release += 1
        else:
            self.ledger.double_release += 1

    # -- states ------------------------------------------------------------------------------------------------------

    def show_node(self, node: Node, now: float) -> None:
        """Record what became of a node and its providers, where it changed."""
        if node.shown != (node.state, node.connected):
            node.shown = (node.state, node.connected)
            reason = _reason(node.state, node.reason)
            self._effects.append(Effect(EffectType.NODE, self.load(), node_id=node.id, reason=reason))
        self.show(self.fleet.of_node(node), now)

    def show(self, providers: Iterable[Provider], now: float) -> None:
        """Record new states of providers, and let the grace of their waiters begin or end."""
        groups: dict[Group, None] = {}
        for provider in providers:
            state = provider.state
            if provider.shown is not state:
                provider.shown = state
                self.about_provider(EffectType.PROVIDER, provider, _reason(state, provider.reason_of(state, now)))
            self.alarms.look(provider)
            groups.update(dict.fromkeys(self.line.of_provider(provider.id)))
        for group in groups:
            group.note_candidates(now)

    def wedge_due(self, provider: Provider) -> float | None:
        """Tell when this provider becomes suspect (seconds) if nothing happens: full, with waiters, and silent."""
        if len(provider.leases) < provider.capacity or not self.line.has_waiters(provider.id):
            return None
        return provider.silence.due(self.wedge_after)

    def suspect(self, now: float) -> None:
        """Find the providers suspect that have been silent for too long."""
        while (alarm := self.alarms.next()) is not None and alarm[0] <= now:
            provider = alarm[1]
            provider.silence.limit = self.wedge_after
            self.show([provider], now)

    def about_provider(self, kind: EffectType, provider: Provider, reason: str) -> None:
        """Record an effect on a provider."""
        self._effects.append(
            Effect(
                kind,
                self.load(),
                provider_id=provider.id,
                node_id=provider.node.id,
                reason=reason,
                provider=self.load_of(provider),
            ),
        )

    # -- inner steps -------------------------------------------------------------------------------------------------

    def _join(self, request: Request, candidates: tuple[Provider, ...], now: float) -> None:
        if self.line.join(request, candidates, now):
            for provider in candidates:
                self.alarms.look(provider)

    def _open(self, provider: Provider, request: Request | None, request_id: str, model: str, now: float) -> Held:
        lease_id = self._last_lease = self._last_lease + 1
        node = provider.node
        waited, streams = (0.0, False) if request is None else (now - request.arrived, request.streams)
        lease = Lease(lease_id, request_id, model, provider.id, node.id, node.epoch, waited)
        held = self.held[lease_id] = Held(lease, provider, request)
        provider.take(lease_id, now, streams=streams)
        self.alarms.look(provider)
        return held

    def _release(self, held: Held, now: float) -> None:
        """Free the slot: the one place where a slot is given back."""
        lease, provider = held.lease, held.provider
        del self.held[lease.id]
        provider.free(lease.id, now)
        self.alarms.look(provider)
        self._closed[lease.id] = (lease.node_id, lease.epoch)
        if len(self._closed) > _REMEMBERED:
            del self._closed[next(iter(self._closed))]
        if provider.removing and not provider.leases:
            del self.fleet.providers[provider.id]

    def _show_life(self, provider: Provider, now: float) -> None:
        """Record that an end cleared a suspicion."""
        if provider.shown is ProviderState.SUSPECT:
            self.show([provider], now)

    def _about(self, kind: EffectType, request: Request, error: IopError | None = None) -> None:
        reason = None if error is None else error.code
        self._effects.append(
            Effect(kind, self.load(), request.id, request.model, reason=reason, error=error),
        )

    def _about_lease(
        self,
        kind: EffectType,
        held: Held,
        *,
        outcome: Outcome | None = None,
        reason: str | None = None,
        error: IopError | None = None,
    ) -> None:
        lease, load, model, own = held.lease, self.load(), held.model, self.load_of(held.provider)
        request_id, provider_id, node_id = lease.request_id, lease.provider_id, lease.node_id
        self._effects.append(
            Effect(kind, load, request_id, model, provider_id, node_id, outcome, reason, own, lease, error)
        )


def _reason(state: str, reason: str | None) -> str:
    return f"{state}: {reason}" if reason else f"{state}"
