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
    streams: bool = False
    owner: str | None = None
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
        self.stopping: set[str] = set()
        self.down: set[str] = set()
        self.busy: set[str] = set()
        self.waiting: list[Waiter] = []
        self.held: dict[int, tuple[str, Waiter | None]] = {}
        self.asked: dict[str, Waiter] = {}
        self.fates: dict[str, int] = {}
        self.leaving = self.closed = False
        self.shown: dict[str, str] = {}
        # silence: providers and streams have a time each at which something was last heard of them
        self.wedge_after = 120.0
        self.heard: dict[str, float] = {}
        self.stream_heard: dict[int, float] = {}
        self.held_up: set[int] = set()
        self.unanswered: set[str] = set()
        self.suspect: dict[str, float] = {}

    def candidates(self, waiter: Waiter) -> list[str]:
        named = (waiter.only,) if waiter.only else self.models.get(waiter.model, ())
        ours = [p for p in named if waiter.owner in (None, p)]
        return [p for p in ours if p in self.capacity and p not in waiter.excluded]

    def leases_of(self, provider: str) -> list[int]:
        return [lease for lease, (p, _) in self.held.items() if p == provider]

    def in_flight(self, provider: str) -> int:
        return sum(1 for p, _ in self.held.values() if p == provider)

    def is_open(self, provider: str, waiter: Waiter) -> bool:
        return self.state(provider, drain_ignored=bool(waiter.only)) == "ready" and (
            provider not in self.busy and self.has_room(provider)
        )

    def state(self, provider: str, *, drain_ignored: bool = False) -> str:
        node = self.node_of[provider]
        if provider not in self.capacity:
            return "removing"
        if (node in self.draining or node in self.stopping) and not drain_ignored:
            return "draining"
        if node not in self.connected:
            return "offline"
        if provider in self.down:
            return "down"
        return "suspect" if provider in self.suspect else "ready"

    def has_room(self, provider: str) -> bool:
        return self.in_flight(provider) < self.capacity[provider]

    def is_gone(self, provider: str, waiter: Waiter) -> bool:
        return self.state(provider, drain_ignored=bool(waiter.only)) in {"offline", "down"}

    def usable(self, waiter: Waiter) -> list[str]:
        return [p for p in self.candidates(waiter) if self.is_open(p, waiter)]

    def grace_end(self, waiter: Waiter) -> float | None:
        return None if waiter.lost is None else max(waiter.lost, waiter.joined) + self.grace

    # -- silence -----------------------------------------------------------------------------------------------------

    def suspect_at(self, provider: str) -> float | None:
        """When it becomes suspect: full, with a waiter, nothing heard of it, and its probe or a stream silent too."""
        leases = self.leases_of(provider)
        if provider in self.suspect or len(leases) < self.capacity.get(provider, len(leases) + 1):
            return None
        if self.held_up & set(leases) or not any(provider in self.candidates(w) for w in self.waiting):
            return None
        signs = [self.stream_heard[lease] for lease in leases if lease in self.stream_heard]
        signs += [self.heard[provider]] if provider in self.unanswered else []
        return max(min(signs), self.heard[provider]) + self.wedge_after if signs else None

    def sign(self, lease: int, now: float) -> None:
        provider, _ = self.held[lease]
        self.heard[provider] = now
        if lease in self.stream_heard:
            self.stream_heard[lease] = now
        self.suspect.pop(provider, None)

    def resume(self, lease: int, now: float) -> None:
        if lease in self.held_up:
            self.held_up.remove(lease)
            self.sign(lease, now)

    def mute(self, lease: int, now: float) -> None:
        self.resume(lease, now)
        self.stream_heard.pop(lease, None)

    def probed(self, provider: str, result: str, now: float) -> None:
        if result == "up":
            self.down.discard(provider)
            self.busy.discard(provider)
            self.unanswered.discard(provider)
            streams = [self.stream_heard.get(lease, now) for lease in self.leases_of(provider)]
            if provider in self.suspect and all(now - heard < self.suspect[provider] for heard in streams):
                del self.suspect[provider]
        else:
            self.unanswered.add(provider)
            if result == "down":
                self.down.add(provider)

    def hold(self, lease: int, provider: str, waiter: Waiter | None, now: float) -> None:
        if not self.in_flight(provider):
            self.heard[provider] = now
        self.held[lease] = (provider, waiter)
        if waiter is not None and waiter.streams:
            self.stream_heard[lease] = now

    # -- effects -----------------------------------------------------------------------------------------------------

    def see(self, effects: tuple[Effect, ...], now: float) -> None:
        for effect in effects:
            getattr(self, f"on_{effect.type}", self.on_other)(effect, now)
            assert (effect.totals.in_flight, effect.totals.queued) == (len(self.held), len(self.waiting))
            if effect.provider is not None:
                assert effect.provider.in_flight == self.in_flight(effect.provider_id)
        self.note_losses(now)

    def on_other(self, effect: Effect, now: float) -> None:
        assert effect.type in {EffectType.NODE, EffectType.CAPACITY}

    def on_provider(self, effect: Effect, now: float) -> None:
        provider, state = effect.provider_id, effect.reason.split(":")[0]
        if state == "suspect" and provider not in self.suspect:
            due = self.suspect_at(provider)
            assert due is not None, "suspect without a reason"
            assert due <= now, "suspect too early"
            self.suspect[provider] = self.wedge_after
        assert state == self.state(provider)
        assert state != self.shown.get(provider), "told twice"
        self.shown[provider] = state

    def on_queued(self, effect: Effect, now: float) -> None:
        waiter = self.asked[effect.request_id]
        assert not self.usable(waiter)
        assert not self.leaving
        assert len(self.waiting) < self.max_waiting
        assert waiter.key is None or sum(1 for w in self.waiting if w.key == waiter.key) < self.key_max_waiting
        waiter.joined = now
        self.waiting.append(waiter)

    def on_granted(self, effect: Effect, now: float) -> None:
        waiter, chosen = self.asked[effect.request_id], effect.provider_id
        usable = self.usable(waiter)
        assert chosen in usable, "granted by a provider that was full, not ready, or no candidate"
        assert not self.leaving or waiter in self.waiting, "a newcomer was let in while leaving"
        earlier = [w for w in self.waiting if w.number < waiter.number and chosen in self.candidates(w)]
        assert not any(self.is_open(chosen, w) for w in earlier), "a waiter was passed"
        share = {p: (self.in_flight(p) / self.capacity[p], self.in_flight(p) - self.capacity[p]) for p in usable}
        assert share[chosen] == min(share.values()), "not the least loaded"
        if waiter in self.waiting:
            self.waiting.remove(waiter)
        assert effect.lease.id not in self.held
        assert abs(effect.lease.waited - (now - waiter.arrived)) < 1e-9
        self.hold(effect.lease.id, chosen, waiter, now)

    def on_adopted(self, effect: Effect, now: float) -> None:
        self.hold(effect.lease.id, effect.provider_id, None, now)

    def on_returned(self, effect: Effect, now: float) -> None:
        provider, waiter = self.free(effect, now)
        assert not self.closed
        if not effect.reason.startswith(("busy", "stopping")):
            waiter.excluded.add(provider)
        assert self.candidates(waiter)
        waiter.joined = now
        self.waiting.append(waiter)

    def on_ended(self, effect: Effect, now: float) -> None:
        provider, waiter = self.free(effect, now)
        if waiter is None:
            assert effect.outcome == ("cancelled" if effect.reason is None else "failed")
            return
        if effect.error is not None and not self.closed and effect.reason != "link_lost":
            assert set(self.candidates(waiter)) <= {provider}, "failed although somebody was left to try"
        self.finish(waiter)

    def on_refused(self, effect: Effect, now: float) -> None:
        waiter = self.asked[effect.request_id]
        if effect.reason == "queue_full":
            assert not self.usable(waiter)
            of_key = sum(1 for w in self.waiting if w.key and w.key == waiter.key)
            assert len(self.waiting) >= self.max_waiting or (waiter.key and of_key >= self.key_max_waiting)
        elif effect.reason == "shutting_down":
            assert self.leaving
        else:
            assert not self.candidates(waiter)
            code = "model_not_found" if waiter.model not in self.models else "previous_response_not_found"
            assert effect.reason == ("not_found" if waiter.only else code)
        self.finish(waiter)

    def on_expired(self, effect: Effect, now: float) -> None:
        waiter = self.asked[effect.request_id]
        if effect.reason == "queue_timeout":
            assert waiter.deadline <= now
        elif effect.reason == "no_provider_available":
            self.note_losses(now)
            assert self.grace_end(waiter) <= now
        elif effect.reason == "shutting_down":
            assert self.closed
        else:
            assert not self.candidates(waiter)
        self.waiting.remove(waiter)
        self.finish(waiter)

    def on_abandoned(self, effect: Effect, now: float) -> None:
        waiter = self.asked[effect.request_id]
        self.waiting.remove(waiter)
        self.finish(waiter)

    def free(self, effect: Effect, now: float) -> tuple[str, Waiter | None]:
        lease = effect.lease.id
        self.sign(lease, now)
        self.stream_heard.pop(lease, None)
        self.held_up.discard(lease)
        provider, waiter = self.held.pop(lease)
        self.busy.discard(provider)
        if effect.reason is not None and effect.reason.startswith(("busy", "stopping")):
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
        for provider in self.node_of:
            if provider not in self.capacity and provider not in held:
                for known in (self.down, self.busy, self.unanswered):
                    known.discard(provider)
                self.shown.pop(provider, None)

    # -- what must hold after each step ------------------------------------------------------------------------------

    def check_rest(self, wakeup: float | None) -> None:
        """No slot is idle that a waiter could use, and the next wake-up is the earliest thing that is due."""
        for waiter in self.waiting:
            assert not self.usable(waiter), "a slot is idle while a waiter could use it"
        due = [*self.draining.values(), *(w.deadline for w in self.waiting)]
        due += [end for w in self.waiting if (end := self.grace_end(w)) is not None]
        due += [at for p in self.capacity if (at := self.suspect_at(p)) is not None]
        assert wakeup == min(due, default=None)

    def find_hidden(self, now: float) -> None:
        """After a tick: what became suspect beneath another state had no effect of its own."""
        for provider in self.capacity:
            at = self.suspect_at(provider)
            if at is not None and at <= now:
                assert self.state(provider) != "ready", "a wedged provider is shown as ready"
                self.suspect[provider] = self.wedge_after

    def check_ticked(self, now: float) -> None:
        assert all(w.deadline > now for w in self.waiting)
        assert all((end := self.grace_end(w)) is None or end > now for w in self.waiting)
        assert all(until > now for until in self.draining.values())
