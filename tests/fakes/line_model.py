"""An independent model of the pool for random walks: a list of waiters in order of arrival and a dict of held slots.

It decides nothing; it is told the effects and checks that each of them was allowed, and that none is missing.
"""

from dataclasses import dataclass, field

from iop.domain.effects import Effect, EffectType


@dataclass(eq=False)
class Waiter:
    number: int
    id: str
    model: str
    only: str | None
    key: str | None
    arrived: float
    deadline: float
    joined: float = 0.0
    lost: float | None = None
    excluded: set[str] = field(default_factory=set)


class LineModel:
    """`capacity` names the declared providers; `held` maps lease ids to (provider, request; None = adopted work)."""

    def __init__(self, nodes: dict[str, str], grace: float, max_waiting: int, key_max_waiting: int) -> None:
        self.node_of, self.grace, self.max_waiting, self.key_max_waiting = nodes, grace, max_waiting, key_max_waiting
        self.capacity: dict[str, int] = {}
        self.models: dict[str, tuple[str, ...]] = {}
        self.connected: set[str] = set()
        self.draining: dict[str, float] = {}
        self.down: set[str] = set()
        self.busy: set[str] = set()
        self.waiting: list[Waiter] = []
        self.held: dict[int, tuple[str, Waiter | None]] = {}
        self.asked: dict[str, Waiter] = {}
        self.fates: dict[str, int] = {}

    def candidates(self, waiter: Waiter) -> list[str]:
        named = (waiter.only,) if waiter.only else self.models.get(waiter.model, ())
        return [p for p in named if p in self.capacity and p not in waiter.excluded]

    def in_flight(self, provider: str) -> int:
        return sum(1 for p, _ in self.held.values() if p == provider)

    def is_open(self, provider: str, waiter: Waiter) -> bool:
        node = self.node_of[provider]
        ready = node in self.connected and provider not in self.down and provider not in self.busy
        return ready and (bool(waiter.only) or node not in self.draining) and self.has_room(provider)

    def has_room(self, provider: str) -> bool:
        return self.in_flight(provider) < self.capacity[provider]

    def is_gone(self, provider: str, waiter: Waiter) -> bool:
        node = self.node_of[provider]
        shown_draining = node in self.draining and not waiter.only
        return not shown_draining and (node not in self.connected or provider in self.down)

    def usable(self, waiter: Waiter) -> list[str]:
        return [p for p in self.candidates(waiter) if self.is_open(p, waiter)]

    def grace_end(self, waiter: Waiter) -> float | None:
        return None if waiter.lost is None else max(waiter.lost, waiter.joined) + self.grace

    # -- effects -----------------------------------------------------------------------------------------------------

    def see(self, effects: tuple[Effect, ...], now: float) -> None:
        for effect in effects:
            getattr(self, f"on_{effect.type}", self.on_other)(effect, now)
            assert (effect.totals.in_flight, effect.totals.queued) == (len(self.held), len(self.waiting))
            if effect.provider is not None:
                assert effect.provider.in_flight == self.in_flight(effect.provider_id)
        self.note_losses(now)

    def on_other(self, effect: Effect, now: float) -> None:
        assert effect.type in {EffectType.NODE, EffectType.PROVIDER, EffectType.CAPACITY}

    def on_queued(self, effect: Effect, now: float) -> None:
        waiter = self.asked[effect.request_id]
        assert not self.usable(waiter)
        assert len(self.waiting) < self.max_waiting
        assert waiter.key is None or sum(1 for w in self.waiting if w.key == waiter.key) < self.key_max_waiting
        waiter.joined = now
        self.waiting.append(waiter)

    def on_granted(self, effect: Effect, now: float) -> None:
        waiter, chosen = self.asked[effect.request_id], effect.provider_id
        usable = self.usable(waiter)
        assert chosen in usable, "granted by a provider that was full, not ready, or no candidate"
        earlier = [w for w in self.waiting if w.number < waiter.number and chosen in self.candidates(w)]
        assert not any(self.is_open(chosen, w) for w in earlier), "a waiter was passed"
        share = {p: (self.in_flight(p) / self.capacity[p], self.in_flight(p) - self.capacity[p]) for p in usable}
        assert share[chosen] == min(share.values()), "not the least loaded"
        if waiter in self.waiting:
            self.waiting.remove(waiter)
        assert effect.lease.id not in self.held
        assert abs(effect.lease.waited - (now - waiter.arrived)) < 1e-9
        self.held[effect.lease.id] = (chosen, waiter)

    def on_adopted(self, effect: Effect, now: float) -> None:
        self.held[effect.lease.id] = (effect.provider_id, None)

    def on_returned(self, effect: Effect, now: float) -> None:
        provider, waiter = self.free(effect)
        if not effect.reason.startswith("busy"):
            waiter.excluded.add(provider)
        assert self.candidates(waiter)
        waiter.joined = now
        self.waiting.append(waiter)

    def on_ended(self, effect: Effect, now: float) -> None:
        _, waiter = self.free(effect)
        if waiter is None:
            assert effect.outcome == ("failed" if effect.reason == "link_lost" else "cancelled")
        else:
            self.finish(waiter)

    def on_refused(self, effect: Effect, now: float) -> None:
        waiter = self.asked[effect.request_id]
        if effect.reason == "queue_full":
            assert not self.usable(waiter)
            of_key = sum(1 for w in self.waiting if w.key and w.key == waiter.key)
            assert len(self.waiting) >= self.max_waiting or (waiter.key and of_key >= self.key_max_waiting)
        else:
            assert waiter.only not in self.capacity if waiter.only else waiter.model not in self.models
        self.finish(waiter)

    def on_expired(self, effect: Effect, now: float) -> None:
        waiter = self.asked[effect.request_id]
        if effect.reason == "queue_timeout":
            assert waiter.deadline <= now
        elif effect.reason == "no_provider_available":
            self.note_losses(now)
            assert self.grace_end(waiter) <= now
        else:
            assert not self.candidates(waiter)
        self.waiting.remove(waiter)
        self.finish(waiter)

    def on_abandoned(self, effect: Effect, now: float) -> None:
        waiter = self.asked[effect.request_id]
        self.waiting.remove(waiter)
        self.finish(waiter)

    def free(self, effect: Effect) -> tuple[str, Waiter | None]:
        provider, waiter = self.held.pop(effect.lease.id)
        self.busy.discard(provider)
        if effect.reason is not None and effect.reason.startswith("busy"):
            self.busy.add(provider)
        return provider, waiter

    def finish(self, waiter: Waiter) -> None:
        self.fates[waiter.id] = self.fates.get(waiter.id, 0) + 1

    def note_losses(self, now: float) -> None:
        for waiter in self.waiting:
            if not all(self.is_gone(p, waiter) for p in self.candidates(waiter)):
                waiter.lost = None
            elif waiter.lost is None:
                waiter.lost = now
        held = {p for p, _ in self.held.values()}
        forgotten = {p for p in self.node_of if p not in self.capacity and p not in held}
        self.down -= forgotten
        self.busy -= forgotten

    # -- what must hold after each step ------------------------------------------------------------------------------

    def check_rest(self, wakeup: float | None) -> None:
        """No slot is idle that a waiter could use, and the next wake-up is the earliest thing that is due."""
        for waiter in self.waiting:
            assert not self.usable(waiter), "a slot is idle while a waiter could use it"
        due = [*self.draining.values(), *(w.deadline for w in self.waiting)]
        due += [end for w in self.waiting if (end := self.grace_end(w)) is not None]
        assert wakeup == min(due, default=None)

    def check_ticked(self, now: float) -> None:
        assert all(w.deadline > now for w in self.waiting)
        assert all((end := self.grace_end(w)) is None or end > now for w in self.waiting)
        assert all(until > now for until in self.draining.values())
