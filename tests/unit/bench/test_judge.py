"""The judge of a chaos run: a run in which all is well passes, and each thing that must not be fails it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench import judge as command
from tests.bench.judge import last_line
from tests.bench.record import (
    HISTORY,
    Answer,
    Done,
    Ended,
    Engine,
    Event,
    History,
    Life,
    Offered,
    Status,
    Trouble,
    read,
)
from tests.bench.view import view
from tests.fakes.chaos_story import Story, change, drop, healthy, judged


def _is_event(kind: str, request: str | None = None) -> Callable[[Any], bool]:
    return lambda one: (
        isinstance(one, Event) and one.event["type"] == kind and (request is None or one.event["request_id"] == request)
    )


def _is_answer(request: str) -> Callable[[Any], bool]:
    return lambda one: isinstance(one, Answer) and one.request_id == request


def _final_engine(one: Any) -> bool:
    return isinstance(one, Engine) and one.final


def _spoil_status(**parts: Any) -> Callable[[Story], None]:
    """Change parts of the last status."""

    def spoil(story: Story) -> None:
        at = max(n for n, one in enumerate(story.records) if isinstance(one, Status))
        last = story.records[at]
        assert isinstance(last, Status)
        story.records[at] = Status(last.t, {**last.status, **parts})

    return spoil


def test_a_run_in_which_all_is_well_passes() -> None:
    """Given back, abandoned, broken by a fault that explains it, over a capacity made smaller: nothing to find."""
    judgement = judged()
    assert judgement.findings == []
    assert last_line(judgement) == (
        "chaos seed 7 · 1 min · 1 faults · 5 requests: 3 answered, 1 clear errors, 1 left, 0 lost, 0 twice · "
        "never over · final 0/0 · anomalies 0"
    )


SPOILED: dict[str, tuple[str, Callable[[Story], object]]] = {
    "a request whose slot is never given back": ("lost", lambda s: drop(s, _is_event("ended", "r2"))),
    "a request that waits for ever": ("lost", lambda s: drop(s, _is_event("abandoned", "r3"))),
    "an agent's request without an end": ("lost", lambda s: drop(s, _is_event("direct_ended"))),
    "an answer that no work made": ("lost", lambda s: change(s, _is_event("ended", "r1"), outcome="failed")),
    "a request that never ends for its client": (
        "lost", lambda s: change(s, _is_answer("r1"), outcome="unfinished", why="90 s"),
    ),
    "half an answer": ("lost", lambda s: change(s, _is_answer("r1"), outcome="wrong", why="no end")),
    "a second grant": ("twice", lambda s: s.event(3.3, "granted", "r1", "q")),
    "a second end": ("twice", lambda s: s.event(3.3, "ended", "r1", "p", outcome="completed")),
    "a second run on the same engine": ("twice", lambda s: s.offered(3.3, "p", "r1")),
    "a run on another engine without a return": ("twice", lambda s: s.offered(3.3, "q", "r1")),
    "a return that the log does not tell": ("twice", lambda s: drop(s, _is_event("returned"))),
    "two Edges that grant": (
        "twice",
        lambda s: s.records.extend([
            Life(3.3, "e2"), Event(3.4, "e2", {
                "seq": 1, "type": "granted", "request_id": "r1", "provider_id": "p", "outcome": None, "totals": None,
                "provider": {"capacity": 1, "in_flight": 1, "queued": 0}}),
        ]),
    ),
    "two answers to one request": ("twice", lambda s: s.answer("r1", 1.0, 3.0, provider="p", status=200)),
    "a grant beyond the capacity": (
        "over",
        lambda s: change(s, _is_event("granted", "r1"), provider={"capacity": 1, "in_flight": 2, "queued": 0}),
    ),
    "a count that is not that of the grants": (
        "over",
        lambda s: change(s, _is_event("ended", "r1"), provider={"capacity": 1, "in_flight": 1, "queued": 0}),
    ),
    "an engine that was offered too many": ("offered", lambda s: s.engines(4.0, peak=3)),
    "an error that no fault explains": ("unexplained", lambda s: drop(s, lambda one: isinstance(one, Done))),
    "an error of another provider's fault": (
        "unexplained", lambda s: change(s, lambda one: isinstance(one, Done), target="n", node="n"),
    ),
    "an error long after its fault": (
        "unexplained", lambda s: s.answer("r5", 30.0, 31.0, "error", status=502, code="upstream_broken", provider="q"),
    ),
    "an answer that is cut without a word": (
        "unexplained", lambda s: change(s, _is_answer("r4"), outcome="cut", code=None),
    ),
    "a line that is full though it is not": (
        "unexplained", lambda s: change(s, _is_answer("r4"), status=429, code="queue_full"),
    ),
    "events that were lost for the reader": (
        "log", lambda s: s.records.remove(next(one for one in s.records if _is_event("queued")(one))),
    ),
    "an anomaly": ("anomaly", _spoil_status(anomalies={"double_release": 1})),
    "a fault that could not be done": ("fault", lambda s: change(s, lambda one: isinstance(one, Done), trouble="no")),
    "what the run itself saw": ("run", lambda s: s.records.append(Trouble(5.0, "a traceback in a log"))),
    "no end": ("final", lambda s: s.records.remove(next(one for one in s.records if isinstance(one, Ended)))),
    "an engine that says nothing": ("final", lambda s: drop(s, _final_engine)),
    "an engine that still runs": (
        "final",
        lambda s: change(s, _final_engine, stats={
            "running": 1, "waiting": 0, "peak_offered": 1, "started": 2, "completed": 1, "cancelled": 0}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "spoil"), SPOILED.values(), ids=SPOILED)
def test_what_must_not_be_fails_it(rule: str, spoil: Callable[[Story], object]) -> None:
    """Each spoiled run is found, under the right word."""
    judgement = judged(spoil)
    assert rule in {one.rule for one in judgement.findings}
    assert not judgement.ok


def _end_with(story: Story, held: int, queued: int) -> None:
    story.held["p"] += held
    story.counts["p", "admitted"] += held
    story.queued += queued
    story.status(5.3)


@pytest.mark.parametrize(("held", "queued"), [(1, 0), (0, 1)])
def test_work_at_the_end_fails_it(held: int, queued: int) -> None:
    """A final that is not 0/0 is found, and stands in the last line."""
    judgement = judged(lambda s: _end_with(s, held, queued))
    assert [one.rule for one in judgement.findings] == ["final"]
    assert f"final {held}/{queued}" in last_line(judgement)


def test_a_broken_law_fails_it() -> None:
    """Totals that do not add up are found in the status that tells them."""
    story = healthy()
    story.counts["p", "completed"] += 1
    story.status(5.3)
    assert "law" in {one.rule for one in command.judge(view(story.records)).findings}


def test_a_debt_that_grows_fails_it() -> None:
    """Over a capacity that was made smaller, holders may only become fewer."""

    def spoil(story: Story) -> None:
        for held in (1, 2):
            story.capacity["p"] = 1
            story.held["p"] = held
            story.counts["p", "admitted"] += 1
            story.status(4.0 + held / 10)

    assert "over" in {one.rule for one in judged(spoil).findings}


def test_a_provider_that_does_not_come_back_fails_it() -> None:
    """Recovery has a bound, counted from the end of the fault; within it, the time is told."""

    def late(story: Story) -> None:
        drop(story, lambda one: isinstance(one, Status) and one.t == 5.0)
        story.status(10.0, q="offline")
        story.status(40.0)

    judgement = judged(late)
    assert [one.text for one in judgement.findings] == ["q was not ready 20 s after #1 kill node"]
    assert "slowest recovery 1.0 s of 20 s allowed" in judged().notes


def test_a_provider_that_is_hit_again_is_judged_by_the_later_fault() -> None:
    """A fault that begins before the provider is back excuses the earlier one, not itself."""

    def again(story: Story) -> None:
        drop(story, lambda one: isinstance(one, Status) and one.t == 5.0)
        story.records.append(Done(30.0, 2, "cut link", "m", 20.0, 30.0, node="m"))
        story.status(31.0)

    assert [one for one in judged(again).findings if one.rule == "recovery"] == []


def test_a_killed_edge_explains_cuts_and_an_open_log() -> None:
    """What the newest events of a killed Edge would have told is not known; the same log without the kill is a loss."""

    def killed(story: Story, kind: str = "kill edge") -> None:
        at = next(n for n, one in enumerate(story.records) if isinstance(one, Ended))
        story.event(6.0, "granted", "r9", "p")
        story.records.append(Life(7.0, "e2"))
        story.records.append(Done(7.0, 2, kind, "edge", 6.1, 7.0))
        story.answer("r9", 6.0, 6.2, "cut", status=200, provider="p")
        story.held.clear()
        story.counts["p", "admitted"] -= 1
        story.status(8.0)
        story.records.append(story.records.pop(at))

    assert judged(killed).findings == []
    found = {one.rule for one in judged(lambda story: killed(story, "restart edge")).findings}
    assert found == {"lost", "unexplained"}


def test_an_engine_that_stood_still_is_told_of_and_not_held_against_the_edge() -> None:
    """A frozen engine does not see who leaves it: one request more than its slots is a note."""

    def frozen(story: Story) -> None:
        story.records.append(Done(4.0, 2, "freeze engine", "q", 3.0, 4.0, provider="q"))
        story.engines(4.5, peak=1)
        change(story, _final_engine, provider="q", stats={
            "running": 0, "waiting": 0, "peak_offered": 3, "started": 3, "completed": 3, "cancelled": 0})  # fmt: skip
        story.engines(5.1, final=True)

    judgement = judged(frozen)
    assert judgement.findings == []
    assert any("it stood still meanwhile (#2 freeze engine)" in note for note in judgement.notes)


def test_it_judges_again_from_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The history alone says it all: the same line and exit code, and 2 where there is none."""
    history = History(tmp_path / HISTORY)
    history.add(*healthy().records)
    history.close()
    assert read(tmp_path / HISTORY) == healthy().records
    assert command.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == last_line(judged())
    assert command.main([str(tmp_path / "nothing")]) == 2
    assert isinstance(healthy().records[3], Offered)
