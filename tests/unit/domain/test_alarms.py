"""The alarms: whose time comes next, whatever put it off or brought it forward."""

from functools import partial

import pytest

from iop.domain.admission import Admission
from iop.domain.alarms import Alarms
from iop.domain.effects import Outcome
from iop.domain.fleet import Node, Provider
from iop.domain.specs import Ask, LineBounds, PoolSpec, ProviderSpec
from tests.fakes.cost import lines_run

A, B = (Provider(name, Node(name), 1) for name in "ab")


class Times:
    """The real times, which change behind the alarms' back; `asked` counts the questions."""

    def __init__(self, **times: float) -> None:
        self.times: dict[str, float | None] = dict(times)
        self.asked = 0

    def __call__(self, provider: Provider) -> float | None:
        self.asked += 1
        return self.times.get(provider.id)


def test_the_earliest_is_next() -> None:
    """Of all that were looked at; nobody when there is none."""
    times = Times(a=9.0, b=7.0)
    alarms = Alarms(times)
    assert alarms.next() is None
    alarms.look(A)
    alarms.look(B)
    assert alarms.next() == (7.0, B)


def test_a_time_that_was_put_off_is_put_right_when_its_turn_comes() -> None:
    """Nobody has to tell: the note is early, and the truth is asked for before it is used."""
    times = Times(a=9.0, b=7.0)
    alarms = Alarms(times)
    alarms.look(A)
    alarms.look(B)
    times.times["b"] = 20.0
    assert alarms.next() == (9.0, A)
    times.times["a"] = None
    assert alarms.next() == (20.0, B)
    times.times["b"] = None
    assert alarms.next() is None


def test_a_time_that_comes_forward_is_told_and_counts_once() -> None:
    """The later note of the same provider is dropped when it comes up."""
    times = Times(a=9.0)
    alarms = Alarms(times)
    alarms.look(A)
    times.times["a"] = 5.0
    alarms.look(A)
    assert alarms.next() == (5.0, A)
    times.times["a"] = 30.0
    assert alarms.next() == (30.0, A)
    times.times["a"] = None
    assert alarms.next() is None


def test_looking_again_leaves_one_note() -> None:
    """However often a provider changes, what is kept of it is one note: the next question asks of it once."""
    times = Times(a=9.0)
    alarms = Alarms(times)
    for _ in range(1000):
        alarms.look(A)
    times.times["a"], times.asked = None, 0
    assert alarms.next() is None
    assert times.asked == 1


def _busy_pool(providers: int) -> Admission:
    """Every slot is held by a stream, and ten wait."""
    specs = tuple(ProviderSpec(f"p{number}", "n", 1) for number in range(providers))
    admission = Admission()
    admission.configure(PoolSpec(specs, {"m": tuple(spec.id for spec in specs)}, LineBounds(), 20.0), 100.0)
    for number in range(providers + 10):
        admission.ask(Ask(f"r{number}", "m", streams=True), 100.0)
        if number == 10:
            admission.node_connected("n", 1, 100.0)
    admission.next_wakeup()
    assert (admission.load().in_flight, admission.load().queued) == (providers, 10)
    return admission


@pytest.mark.parametrize(
    "step",
    [
        lambda pool: pool.next_wakeup,
        lambda pool: partial(pool.end, 1, Outcome.COMPLETED, 101.0),
        lambda pool: partial(pool.ask, Ask("late", "m"), 101.0),
        lambda pool: partial(pool.sign_of_life, 1, 101.0),
    ],
)
def test_a_change_costs_the_same_in_a_pool_of_10_and_of_1000_providers(step) -> None:
    """A hand-over, a newcomer to the line, a byte and the next wake-up look at those they touch, not at all."""
    assert lines_run(step(_busy_pool(10))) == lines_run(step(_busy_pool(1000)))


def test_a_time_that_is_put_off_costs_its_provider_one_step() -> None:
    """Putting the notes right costs as much as there were hand-overs, not as there are providers."""
    costs = []
    for providers in (10, 1000):
        pool = _busy_pool(providers)

        def hand_overs(pool: Admission = pool) -> None:
            for lease in range(1, 6):
                pool.end(lease, Outcome.COMPLETED, 110.0 + lease)
                pool.next_wakeup()

        costs.append(lines_run(hand_overs))
        assert pool.next_wakeup() == 120.0
    assert costs[1] == costs[0]
