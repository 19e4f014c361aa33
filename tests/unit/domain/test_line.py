"""The line: order, groups, clocks, and what a change costs."""

from functools import partial

import pytest

from iop.domain.effects import Outcome
from iop.domain.fleet import Node, Provider
from iop.domain.line import Line, Request
from iop.domain.specs import Ask
from iop.domain.states import IllegalTransition, State
from tests.fakes.cost import lines_run
from tests.fakes.desk import Desk


def _ready(name: str, capacity: int = 1) -> Provider:
    return Provider(name, Node(f"n-{name}", connected=True, link_reason=None), capacity)


def _request(number: int, model: str = "m", **options: object) -> Request:
    return Request(f"r{number}", model, number, float(number), number + 100.0, **options)  # type: ignore[arg-type]


def test_the_earliest_arrival_that_can_use_a_provider_is_next_whenever_it_joined() -> None:
    """Order is by arrival number over all groups of a provider, not by joining and not by group."""
    line, a, b = Line(), _ready("a"), _ready("b")
    for waiter, candidates in ((_request(3), (a, b)), (_request(2, "other"), (b,)), (_request(1, "only-a"), (a,))):
        line.join(waiter, candidates, 5.0)
    earliest = {provider.id: line.earliest([provider]) for provider in (a, b)}
    assert {name: place.request.id for name, place in earliest.items() if place} == {"a": "r1", "b": "r2"}
    both = line.earliest([b, a])
    assert both is not None
    assert both.request.id == "r1"


def test_an_earlier_arrival_that_joins_later_stands_ahead() -> None:
    """Within a group a returned request stands at its arrival number, before those who came after it."""
    line, a = Line(), _ready("a")
    for number in (2, 1, 3):
        line.join(_request(number), (a,), 5.0)
    (group,) = line.groups.values()
    assert [place.request.number for place in group.places()] == [1, 2, 3]
    order = []
    while (place := line.earliest([a])) is not None:
        order.append(place.request.number)
        line.leave(place)
    assert order == [1, 2, 3]


def test_a_provider_that_takes_no_work_gets_nobody() -> None:
    """A full provider has no next waiter, and a draining one only a check of it."""
    line, a = Line(), _ready("a")
    line.join(_request(1), (a,), 0.0)
    line.join(_request(2, only="a", is_check=True), (a,), 0.0)
    a.node.drain_until = 9.0
    place = line.earliest([a])
    assert place is not None
    assert place.request.id == "r2"
    a.leases[1] = 0.0
    assert line.earliest([a]) is None


def test_leaving_counts_down_everywhere_and_purges_empty_groups() -> None:
    """After the last waiter has left, no group, index, key count or deadline is kept."""
    line, a = Line(), _ready("a")
    for number in (1, 2):
        line.join(_request(number, key="alice"), (a,), 0.0)
    assert (len(line), line.queued_for("a"), line.waiting_of_key("alice")) == (2, 2, 2)
    first = line.waiting["r1"]
    line.leave(first)
    line.leave(first)
    assert (len(line), line.queued_for("a"), line.waiting_of_key("alice")) == (1, 1, 1)
    line.leave(line.waiting["r2"])
    assert (len(line), line.queued_for("a"), line.waiting_of_key("alice")) == (0, 0, 0)
    assert (line.groups, line.next_end(30.0)) == ({}, None)


def test_deadlines_fall_due_in_their_own_order() -> None:
    """Whoever's deadline passed is yielded, earliest deadline first, and nobody else."""
    line, a = Line(), _ready("a")
    late, soon, sooner = _request(1), _request(2), _request(3)
    soon.deadline, sooner.deadline = 20.0, 10.0
    for waiter in (late, soon, sooner):
        line.join(waiter, (a,), 0.0)
    assert line.next_end(30.0) == 10.0
    due = []
    for place in line.overdue(20.0):
        due.append(place.request.id)
        line.leave(place)
    assert due == ["r3", "r2"]
    assert line.next_end(30.0) == 101.0


def test_the_grace_counts_from_joining_or_from_the_loss_whichever_is_later() -> None:
    """Those who waited before the loss fall due together; a later one has its own grace."""
    line, a = Line(), _ready("a")
    line.join(_request(1), (a,), 1.0)
    line.join(_request(2), (a,), 2.0)
    assert line.next_end(30.0) == 101.0
    a.node.connected = False
    group = next(iter(line.groups.values()))
    group.note_candidates(10.0)
    line.join(_request(3), (a,), 15.0)
    assert line.next_end(30.0) == 40.0
    due = []
    for place in line.out_of_grace(40.0, 30.0):
        due.append(place.request.id)
        line.leave(place)
    assert due == ["r1", "r2"]
    assert line.next_end(30.0) == 45.0
    a.node.connected = True
    group.note_candidates(41.0)
    assert line.next_end(30.0) == 103.0


def test_rerouting_moves_a_group_to_its_new_candidates() -> None:
    """After a change of the config the old provider sees none of these waiters and the new one sees all."""
    line, a, b = Line(), _ready("a"), _ready("b")
    line.join(_request(1), (a,), 0.0)
    line.reroute(next(iter(line.groups.values())), (b,))
    assert (line.queued_for("a"), line.queued_for("b")) == (0, 1)
    assert line.earliest([a]) is None


def test_a_request_moves_by_the_table_only() -> None:
    """An arrow that is not in the table raises and leaves the request where it was."""
    waiter = _request(1)
    waiter.move(State.QUEUED)
    with pytest.raises(IllegalTransition):
        waiter.move(State.RUN_COMPLETE)
    assert waiter.state is State.QUEUED


def _costs_of_hand_overs(length: int, hand_overs: int) -> list[int]:
    desk = Desk({"a": 1}, max_waiting=length, max_wait=1e6)
    admission = desk.admission
    for number in range(length + 1):
        admission.ask(Ask(f"r{number}", "m"), 100.0)
    leases = range(1, hand_overs + 1)
    return [lines_run(partial(admission.end, lease, Outcome.COMPLETED, 101.0)) for lease in leases]


def test_a_hand_over_costs_the_same_in_a_line_of_100_and_of_10_000() -> None:
    """The cost of handing a slot over, counted in lines run, does not grow with the length of the line."""
    assert set(_costs_of_hand_overs(10_000, 90)) == set(_costs_of_hand_overs(100, 90))


def test_abandoning_from_the_middle_of_10_000_costs_the_same_in_the_long_run() -> None:
    """Leaving from the back of the line, whose marks must be swept, costs a small constant each on average."""
    averages = []
    for length in (100, 10_000):
        desk = Desk({"a": 1}, max_waiting=length, max_wait=1e6)
        for number in range(length + 1):
            desk.admission.ask(Ask(f"r{number}", "m"), 100.0)

        def all_leave(desk: Desk = desk, length: int = length) -> None:
            for number in range(length, 0, -1):
                desk.admission.abandon(f"r{number}", 100.0)

        averages.append(lines_run(all_leave) / length)
        assert desk.admission.load().queued == 0
    assert averages[1] < 1.5 * averages[0]
