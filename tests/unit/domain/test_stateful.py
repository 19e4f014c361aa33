"""Hypothesis walks the pool too: it chooses what happens, and shrinks a failure to the few steps that make it.

`IOP_WALK=<examples>` (as `make walk` sets it) walks longer, with new choices each time.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from iop.domain.effects import Outcome
from tests.fakes.pool_driver import MODELS, NODES, Driver

EXAMPLES = int(os.environ.get("IOP_WALK", "0"))
STEPS = 60 if EXAMPLES else 40

indexes = st.integers(0, 1000)
providers, nodes = st.sampled_from(sorted(NODES)), st.sampled_from(sorted(set(NODES.values())))
models = st.sampled_from([*MODELS, "unknown"])
#: how the shell settles a lease whose link was lost
settlements = st.sampled_from(["link_lost", "link_lost", "failed", "cancelled"])


class Pool(RuleBasedStateMachine):
    """Any order of what can happen; the law and the model of the line hold after each step, and the end is 0/0."""

    @initialize(connected=st.booleans())
    def begin(self, connected: bool) -> None:
        self.driver = Driver(connect=connected)
        self.model = self.driver.model

    def one(self, things: list, index: int):
        return things[index % len(things)]

    def holds(self) -> bool:
        return bool(self.model.held)

    def serves(self) -> bool:
        return bool(self.driver.served())

    # -- time --------------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.1, 0.4, 0.9, 5.0, 31.0]), tick=st.booleans())
    def time_passes(self, seconds: float, tick: bool) -> None:
        self.driver.now += seconds
        if tick:
            self.driver.tick()

    @rule()
    def wake_up_in_time(self) -> None:
        """The timer fires exactly when the machine asked for it."""
        wakeup = self.driver.admission.next_wakeup()
        if wakeup is not None:
            self.driver.now = max(self.driver.now, wakeup)
            self.driver.tick()
            again = self.driver.admission.next_wakeup()
            assert again is None or again > self.driver.now

    # -- requests ----------------------------------------------------------------------------------------------------

    @rule(model=models, key=st.sampled_from([None, None, "alice", "bob"]), streams=st.booleans())
    def ask(self, model: str, key: str | None, streams: bool) -> None:
        self.driver.ask(model, key=key, streams=streams)

    @rule(count=st.integers(2, 12), streams=st.booleans())
    def burst(self, count: int, streams: bool) -> None:
        for _ in range(count):
            self.driver.ask("m3", streams=streams)

    @rule(provider=providers, model=models, streams=st.booleans())
    def claim(self, provider: str, model: str, streams: bool) -> None:
        self.driver.ask(model, only=provider, streams=streams)

    @precondition(lambda self: self.model.waiting)
    @rule(index=indexes)
    def abandon(self, index: int) -> None:
        self.driver.abandon(self.one(self.model.waiting, index))

    # -- leases ------------------------------------------------------------------------------------------------------

    @precondition(holds)
    @rule(index=indexes, outcome=st.sampled_from(list(Outcome)))
    def end(self, index: int, outcome: Outcome) -> None:
        self.driver.end(self.one(list(self.model.held), index), outcome)

    @precondition(serves)
    @rule(index=indexes, failure=st.sampled_from(["unreachable", "reset", "link_lost", "busy", "stopping"]))
    def give_back(self, index: int, failure: str) -> None:
        self.driver.give_back(self.one(self.driver.served(), index), failure)

    @precondition(lambda self: self.driver.closed)
    @rule(index=indexes, end=st.booleans())
    def release_again(self, index: int, end: bool) -> None:
        self.driver.release_again(self.one(self.driver.closed, index), end=end)

    @precondition(holds)
    @rule(index=indexes, what=st.sampled_from(["byte", "hold_up", "resume", "unhear"]))
    def hear(self, index: int, what: str) -> None:
        getattr(self.driver, what)(self.one(list(self.model.held), index))

    # -- nodes -------------------------------------------------------------------------------------------------------

    @rule(node=nodes, ways=st.lists(settlements, min_size=1, max_size=4), outlives=st.integers(0, 15))
    def lose(self, node: str, ways: list[str], outlives: int) -> None:
        if node in self.model.connected:
            leases = self.driver.through(node)
            settled = {lease: ways[place % len(ways)] for place, lease in enumerate(leases)}
            self.driver.lose(node, settled, self._some(leases, outlives))

    @rule(node=nodes, outlives=st.integers(0, 15))
    def connect(self, node: str, outlives: int) -> None:
        """Also over a link that was never seen lost."""
        self.driver.connect(node, self._some(self.driver.through(node), outlives))

    def _some(self, leases: list[int], bits: int) -> list[int]:
        return [lease for place, lease in enumerate(leases) if bits >> (place % 4) & 1]

    @rule(provider=providers, result=st.sampled_from(["up", "up", "down", "silent", "silent"]))
    def probe(self, provider: str, result: str) -> None:
        self.driver.probe(provider, result)

    @rule(node=nodes, seconds=st.sampled_from([0.5, 3.0]))
    def drain(self, node: str, seconds: float) -> None:
        self.driver.drain(node, seconds)

    @rule(node=nodes)
    def stopping(self, node: str) -> None:
        self.driver.stopping(node)

    @rule(node=nodes)
    def undrain(self, node: str) -> None:
        self.driver.undrain(node)

    # -- config and the end ------------------------------------------------------------------------------------------

    @rule(
        capacity=st.dictionaries(providers, st.integers(1, 4), min_size=1),
        chosen=st.dictionaries(st.sampled_from(sorted(MODELS)), st.lists(providers, min_size=1, unique=True)),
        wedge_after=st.sampled_from([0.3, 0.8, 5.0]),
    )
    def refresh(self, capacity: dict[str, int], chosen: dict[str, list[str]], wedge_after: float) -> None:
        served = {name: tuple(p for p in ids if p in capacity) for name, ids in chosen.items()}
        self.driver.configure(capacity, {name: ids for name, ids in served.items() if ids}, wedge_after)

    @precondition(lambda self: len(self.model.asked) > 8)
    @rule(at_once=st.booleans())
    def shut_down(self, at_once: bool) -> None:
        self.driver.shut_down()
        if at_once:
            self.driver.expire_all()

    # -- what holds after each step ----------------------------------------------------------------------------------

    @invariant()
    def the_law_and_the_model_hold(self) -> None:
        if hasattr(self, "driver"):
            self.driver.look_closer(self.driver.check())

    def teardown(self) -> None:
        if hasattr(self, "driver"):
            self.driver.wind_down()


Pool.TestCase.settings = settings(
    max_examples=EXAMPLES or 60,
    stateful_step_count=STEPS,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestPool = Pool.TestCase
