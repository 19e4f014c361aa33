"""The schedule of a chaos run follows from its seed alone."""

import pytest

from tests.bench.plan import LAB, LOOPBACK, Kind, plan, replay

TARGETS = {
    "node": ["n1", "n2"], "provider": ["p1", "p2"], "edge": ["edge"], "control": ["control"], "host": ["h1"],
}  # fmt: skip


@pytest.mark.parametrize("kinds", [LOOPBACK, LAB], ids=["loopback", "lab"])
def test_a_seed_gives_the_same_schedule_again_and_another_one_another(kinds: dict[str, Kind]) -> None:
    """Kinds, targets, times and what a kind leaves open are all in it."""
    assert plan(1, 180, kinds, TARGETS) == plan(1, 180, kinds, TARGETS)
    assert plan(1, 180, kinds, TARGETS) != plan(2, 180, kinds, TARGETS)


def test_the_schedule_of_a_seed_does_not_change() -> None:
    """A command that was printed shows the same faults later, too, as long as the kinds are the same."""
    kinds = {"kill node": Kind("node", (1, 2)), "cut link": Kind("node", (1, 2))}
    assert [str(fault) for fault in plan(3, 20, kinds, TARGETS)] == [
        "#1 cut link n1 at 3.7 s for 1.6 s",
        "#2 cut link n2 at 8.2 s for 1.2 s",
        "#3 kill node n1 at 14.2 s for 1.1 s",
        "#4 cut link n2 at 15.3 s for 1.8 s",
    ]


def test_every_fault_has_a_kind_a_target_and_a_time_of_its_kind() -> None:
    """Numbered in order of time, none too near to the end, and none longer than its kind lasts."""
    seen = set()
    for seed in range(60):
        faults = plan(seed, 180, LOOPBACK, TARGETS)
        assert [fault.number for fault in faults] == list(range(1, len(faults) + 1))
        assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
        for fault in faults:
            kind = LOOPBACK[fault.kind]
            assert fault.target in TARGETS[kind.hits]
            assert kind.seconds[0] - 0.01 <= fault.seconds <= kind.seconds[1] + 0.01
            assert 0 <= fault.share < 1
            assert fault.at <= 160
        seen |= {fault.kind for fault in faults}
    assert seen == set(LOOPBACK)


def test_faults_overlap_but_never_at_one_target() -> None:
    """Two at once are what is looked for; at the same target the second would say nothing."""
    overlaps = 0
    for seed in range(20):
        faults = plan(seed, 180, LOOPBACK, TARGETS)
        pairs = [(a, b) for a in faults for b in faults if a.number < b.number and b.at < a.until]
        overlaps += len(pairs)
        assert [(a, b) for a, b in pairs if a.target == b.target] == []
    assert overlaps > 20


def test_the_command_that_shows_it_again() -> None:
    """It names the minutes, the seed and the place."""
    assert replay(5, 3.0, lab=False) == "python -m tests.bench.chaos --minutes 3 --seed 5"
    assert replay(5, 0.5, lab=True) == "python -m tests.bench.chaos --minutes 0.5 --seed 5 --lab"
