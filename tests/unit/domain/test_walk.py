"""Random walks over everything that can happen to the pool, against an independent model of the line."""

import random

import pytest

from iop.domain.admission import Admission
from iop.domain.effects import Outcome
from iop.domain.law import violations
from iop.domain.snapshots import PoolSnapshot
from iop.domain.specs import LineBounds, PoolSpec, ProviderSpec
from tests.fakes.line_model import LineModel, Waiter

NODES = {"a": "n1", "b": "n1", "c": "n2", "d": "n3"}
CAPACITY = {"a": 2, "b": 1, "c": 3, "d": 2}
MODELS = {"m1": ("a", "c"), "m2": ("b",), "m3": ("a", "b", "c", "d"), "m4": ("d", "a")}
BOUNDS = LineBounds(max_waiting=8, max_wait=30.0, offline_grace=6.0)
KEY_MAX_WAITING = 2
STEPS, SEEDS = 12_500, 8


class Walk:
    """One walk: `faulty` injects second releases and busy answers, and knows how many anomalies that makes."""

    def __init__(self, seed: int, *, faulty: bool) -> None:
        self.rng, self.faulty, self.now = random.Random(seed), faulty, 0.0
        self.admission = Admission()
        self.model = LineModel(NODES, BOUNDS.offline_grace, BOUNDS.max_waiting, KEY_MAX_WAITING)
        self.epochs = dict.fromkeys(sorted(set(NODES.values())), 0)
        self.left_running: dict[str, list[tuple[str, str]]] = {node: [] for node in self.epochs}
        self.closed: list[tuple[int, str, int]] = []
        self.anomalies = {"double_release": 0, "stale_release": 0, "node_over_capacity": 0}
        self.settled = 0
        self.seen = dict.fromkeys(("received", "admitted", "completed", "failed", "cancelled", "expired"), 0)
        self.configure(CAPACITY, MODELS)
        for node in self.epochs:
            self.connect(node)

    def do(self, call: str, *args: object, **options: object) -> None:
        effects = getattr(self.admission, call)(*args, self.now, **options)
        self.model.see(effects, self.now)

    def settle(self) -> None:
        """Check what must hold between any two steps."""
        snapshot = self.admission.snapshot(self.now)
        assert violations(snapshot) == []
        assert (snapshot.totals.in_flight, snapshot.totals.queued) == (len(self.model.held), len(self.model.waiting))
        assert snapshot.totals.capacity == sum(self.model.capacity.values())
        self.model.check_rest(self.admission.next_wakeup())
        self.settled += 1
        if self.settled % 8 == 0:
            self.look_closer(snapshot)

    def look_closer(self, snapshot: PoolSnapshot) -> None:
        """Check the slower things every few steps: debts, waiters per provider, counters that only grow."""
        for provider in snapshot.providers:
            capacity = self.model.capacity.get(provider.provider_id, provider.capacity)
            assert provider.over_by == max(0, provider.in_flight - capacity)
            assert provider.queued == sum(provider.provider_id in self.model.candidates(w) for w in self.model.waiting)
        counted = {name: getattr(snapshot.totals, name) for name in self.seen}
        assert all(counted[name] >= before for name, before in self.seen.items()), "a counter went down"
        self.seen = counted

    # -- steps -------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        self.now += self.rng.choice((0.0, 0.0, 0.05, 0.4))
        getattr(self, self.rng.choice(STEPS_IN_PROPORTION))()
        self.settle()

    def ask(self) -> None:
        request = f"r{len(self.model.asked)}"
        name = self.rng.choice((*MODELS, *MODELS, *MODELS, *MODELS, "unknown"))
        key = self.rng.choice((None, None, "alice", "bob"))
        only = self.rng.choice(sorted(NODES)) if self.rng.random() < 0.08 else None
        waiter = Waiter(len(self.model.asked), request, name, only, None if only else key, self.now, self.now + 30.0)
        self.model.asked[request] = waiter
        if only is not None:
            self.do("claim", only, request, name)
        else:
            self.do("ask", request, name, key=key, key_max_waiting=KEY_MAX_WAITING if key else None)

    def end(self) -> None:
        if self.model.held:
            self.end_lease(self.rng.choice(list(self.model.held)), self.rng.choice(list(Outcome)))

    def end_lease(self, lease_id: int, outcome: Outcome) -> None:
        self.close(lease_id)
        self.do("end", lease_id, outcome)
        assert self.admission.lease(lease_id) is None

    def close(self, lease_id: int) -> None:
        lease = self.admission.lease(lease_id)
        assert lease is not None
        self.closed = [*self.closed[-30:], (lease_id, lease.node_id, lease.epoch)]

    def give_back(self) -> None:
        served = [lease_id for lease_id, (_, waiter) in self.model.held.items() if waiter is not None]
        if not served:
            return
        lease_id, failure = self.rng.choice(served), self.rng.choice(("unreachable", "reset", "busy"))
        if failure == "busy" and not self.faulty:
            failure = "reset"
        self.anomalies["node_over_capacity"] += failure == "busy"
        self.close(lease_id)
        self.do("give_back", lease_id, failure)

    def release_again(self) -> None:
        if not (self.faulty and self.closed):
            return
        lease_id, node, epoch = self.rng.choice(self.closed)
        self.anomalies["stale_release" if epoch < self.epochs[node] else "double_release"] += 1
        if self.rng.random() < 0.5:
            assert self.admission.end(lease_id, Outcome.COMPLETED, self.now) == ()
        else:
            assert self.admission.give_back(lease_id, "reset", self.now) == ()

    def abandon(self) -> None:
        if self.model.waiting:
            self.do("abandon", self.rng.choice(self.model.waiting).id)
        assert self.admission.abandon("never heard of", self.now) == ()

    def lose_or_connect(self) -> None:
        node = self.rng.choice(list(self.epochs))
        if node not in self.model.connected:
            self.connect(node)
            return
        assert self.admission.node_lost(node, self.epochs[node] - 1, self.now) == ()
        self.model.connected.discard(node)
        self.do("node_lost", node, self.epochs[node])
        for lease_id, (provider, waiter) in list(self.model.held.items()):
            lease = self.admission.lease(lease_id)
            assert lease is not None
            if lease.node_id == node and waiter is not None:
                if self.rng.random() < 0.3:
                    self.left_running[node].append((provider, waiter.id))
                self.close(lease_id)
                if self.rng.random() < 0.6:
                    self.do("give_back", lease_id, "link_lost")
                else:
                    self.do("end", lease_id, self.rng.choice((Outcome.FAILED, Outcome.CANCELLED)))
        leases = [self.admission.lease(lease_id) for lease_id in self.model.held]
        assert not any(lease is None or lease.node_id == node for lease in leases), "held through a lost link"

    def connect(self, node: str) -> None:
        self.epochs[node] += 1
        self.model.connected.add(node)
        self.model.busy -= {p for p, its_node in NODES.items() if its_node == node}
        running, self.left_running[node] = self.left_running[node], []
        effects = self.admission.node_connected(node, self.epochs[node], self.now, running)
        self.model.see(effects, self.now)

    def probe(self) -> None:
        provider, up = self.rng.choice(list(NODES)), self.rng.random() < 0.7
        if provider in self.model.capacity or self.model.in_flight(provider):
            self.model.down.discard(provider) if up else self.model.down.add(provider)
            if up:
                self.model.busy.discard(provider)
        self.do("provider_health", provider, up, None if up else "HTTP 500")

    def drain(self) -> None:
        node = self.rng.choice(list(self.epochs))
        if node in self.model.draining:
            del self.model.draining[node]
            self.do("undrain", node)
        else:
            self.model.draining[node] = self.now + self.rng.choice((0.5, 3.0))
            self.do("drain", node, self.model.draining[node], "test")

    def tick(self) -> None:
        self.model.draining = {node: until for node, until in self.model.draining.items() if until > self.now}
        self.model.note_losses(self.now)
        self.do("tick")
        self.model.check_ticked(self.now)

    def refresh(self) -> None:
        capacity = {p: self.rng.randint(1, 4) for p in CAPACITY if self.rng.random() < 0.9}
        models = {
            name: tuple(p for p in self.rng.sample(ids, len(ids)) if p in capacity and self.rng.random() < 0.9)
            for name, ids in MODELS.items()
            if self.rng.random() < 0.95
        }
        self.configure(capacity, {name: ids for name, ids in models.items() if ids})

    def configure(self, capacity: dict[str, int], models: dict[str, tuple[str, ...]]) -> None:
        self.model.capacity, self.model.models = dict(capacity), dict(models)
        specs = tuple(ProviderSpec(p, NODES[p], slots) for p, slots in capacity.items())
        self.do("configure", PoolSpec(specs, models, BOUNDS))

    def wind_down(self) -> None:
        """Bring everything back, then let the work end: nothing may be left."""
        self.configure(CAPACITY, MODELS)
        for node in self.epochs:
            if node not in self.model.connected:
                self.connect(node)
            self.model.draining.pop(node, None)
            self.do("undrain", node)
        for provider in NODES:
            self.model.down.discard(provider)
            self.model.busy.discard(provider)
            self.do("provider_health", provider, True, None)
        self.settle()
        while self.model.held:
            self.end_lease(next(iter(self.model.held)), Outcome.COMPLETED)
            self.settle()


STEPS_AND_WEIGHTS = {
    "ask": 34,
    "end": 26,
    "give_back": 8,
    "release_again": 3,
    "abandon": 4,
    "lose_or_connect": 5,
    "probe": 6,
    "drain": 3,
    "tick": 9,
    "refresh": 2,
}
STEPS_IN_PROPORTION = [name for name, weight in STEPS_AND_WEIGHTS.items() for _ in range(weight)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_request_is_lost_and_no_slot_leaks_whatever_happens(seed: int) -> None:
    """Field cases B05, B06, B08: each effect is allowed by the model, the law holds at each step, the end is 0/0."""
    walk = Walk(seed, faulty=seed % 2 == 1)
    for _ in range(STEPS):
        walk.step()
    walk.wind_down()
    snapshot = walk.admission.snapshot(walk.now)
    assert (snapshot.totals.in_flight, snapshot.totals.queued) == (0, 0)
    assert walk.model.fates == dict.fromkeys(walk.model.asked, 1)
    assert snapshot.totals.received == len(walk.model.asked)
    assert {name: getattr(snapshot.anomalies, name) for name in walk.anomalies} == walk.anomalies
    assert any(walk.anomalies.values()) is walk.faulty


def test_the_walks_are_long_enough_and_reach_every_fate() -> None:
    """At least 100,000 steps are walked in all, and a walk sees every counter of the law move."""
    assert STEPS * SEEDS >= 100_000
    walk = Walk(99, faulty=True)
    for _ in range(4000):
        walk.step()
    totals = walk.admission.snapshot(walk.now).totals
    for name in ("refused", "expired", "abandoned", "admitted", "adopted", "returned", "completed", "failed"):
        assert getattr(totals, name) > 0, name
