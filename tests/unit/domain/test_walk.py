"""Random walks over everything that can happen to the pool, against an independent model of the line."""

import random

import pytest

from iop.domain.effects import Outcome
from tests.fakes.pool_driver import CAPACITY, MODELS, NODES, WEDGE_AFTER, Driver

STEPS, SEEDS = 12_500, 8


class Walk:
    """One walk: `faulty` injects second releases and busy answers."""

    def __init__(self, seed: int, *, faulty: bool) -> None:
        self.rng, self.faulty = random.Random(seed), faulty
        self.driver = Driver()
        self.model = self.driver.model
        self.taken = 0
        self.states: set[str] = set()

    def step(self) -> None:
        self.driver.now += self.rng.choice((0.0, 0.0, 0.05, 0.4))
        getattr(self, self.rng.choice(STEPS_IN_PROPORTION))()
        self.taken += 1
        snapshot = self.driver.check()
        if self.taken % 8 == 0:
            self.driver.look_closer(snapshot)
            self.states |= {provider.state.value for provider in snapshot.providers}

    def ask(self) -> None:
        name = self.rng.choice((*MODELS, *MODELS, *MODELS, *MODELS, "unknown"))
        key = self.rng.choice((None, None, "alice", "bob"))
        only = self.rng.choice(sorted(NODES)) if self.rng.random() < 0.08 else None
        owner = self.rng.choice(sorted(NODES)) if only is None and self.rng.random() < 0.08 else None
        self.driver.ask(name, key=None if only else key, only=only, owner=owner, streams=self.rng.random() < 0.5)

    def end(self) -> None:
        if self.model.held:
            self.driver.end(self.rng.choice(list(self.model.held)), self.rng.choice(list(Outcome)))

    def give_back(self) -> None:
        if served := self.driver.served():
            failure = self.rng.choice(("unreachable", "reset", "stopping", "busy"))
            if failure == "busy" and not self.faulty:
                failure = "reset"
            self.driver.give_back(self.rng.choice(served), failure)

    def release_again(self) -> None:
        if self.faulty and self.driver.closed:
            self.driver.release_again(self.rng.choice(self.driver.closed), end=self.rng.random() < 0.5)

    def abandon(self) -> None:
        if self.model.waiting:
            self.driver.abandon(self.rng.choice(self.model.waiting))

    def hear(self) -> None:
        if self.model.held:
            driver = self.driver
            self.rng.choice((driver.byte, driver.byte, driver.hold_up, driver.resume, driver.unhear))(
                self.rng.choice(list(self.model.held))
            )

    def lose_or_connect(self) -> None:
        node = self.rng.choice(list(self.driver.epochs))
        leases = self.driver.through(node)
        outlives = [lease for lease in leases if self.rng.random() < 0.3]
        if node not in self.model.connected:
            self.driver.connect(node)
        elif self.rng.random() < 0.1:
            self.driver.connect(node, outlives)
        else:
            ways = ("link_lost", "link_lost", "failed", "cancelled")
            self.driver.lose(node, {lease: self.rng.choice(ways) for lease in leases}, outlives)

    def probe(self) -> None:
        self.driver.probe(self.rng.choice(list(NODES)), self.rng.choice(("up", "up", "up", "down", "silent")))

    def drain(self) -> None:
        node = self.rng.choice(list(self.driver.epochs))
        if self.rng.random() < 0.1:
            self.driver.stopping(node)
        elif node in self.model.draining:
            self.driver.undrain(node)
        else:
            self.driver.drain(node, self.rng.choice((0.5, 3.0)))

    def tick(self) -> None:
        self.driver.tick()

    def refresh(self) -> None:
        capacity = {p: self.rng.randint(1, 4) for p in CAPACITY if self.rng.random() < 0.9}
        models = {
            name: tuple(p for p in self.rng.sample(ids, len(ids)) if p in capacity and self.rng.random() < 0.9)
            for name, ids in MODELS.items()
            if self.rng.random() < 0.95
        }
        served = {name: ids for name, ids in models.items() if ids}
        self.driver.configure(capacity, served, self.rng.choice((WEDGE_AFTER, 0.3)))


STEPS_AND_WEIGHTS = {
    "ask": 34,
    "end": 22,
    "give_back": 8,
    "release_again": 3,
    "abandon": 4,
    "hear": 6,
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
    walk.driver.wind_down()
    assert any(walk.driver.anomalies.values()) is walk.faulty


def test_the_walks_are_long_enough_and_reach_every_fate_and_state() -> None:
    """At least 100,000 steps are walked in all, and a walk sees every counter of the law move and every state."""
    assert STEPS * SEEDS >= 100_000
    walk = Walk(99, faulty=True)
    for _ in range(4000):
        walk.step()
    totals = walk.driver.admission.snapshot(walk.driver.now).totals
    for name in ("refused", "expired", "abandoned", "admitted", "adopted", "returned", "completed", "failed"):
        assert getattr(totals, name) > 0, name
    assert walk.states == {"removing", "draining", "offline", "down", "suspect", "ready"}
