"""Each assumption can void a round, and each verdict can fail."""

from dataclasses import replace
from typing import Any

import pytest

from smoke.verdicts import judge_round, void
from smoke.view import RoundView, final_load, maxima, provider_maxima
from tests.fakes.smoke_story import Story, burst, engine, full, request, snapshot, status, with_request


def failed(view: RoundView) -> list[str]:
    """Names of the verdicts that are not good."""
    assert void(view) is None
    return [verdict.name for verdict in judge_round(view) if not verdict.ok]


def void_kind(view: RoundView) -> str | None:
    """The kind of the reason why a round is void."""
    why = void(view)
    return why.kind if why else None


def test_a_burst_as_it_must_go_is_proved() -> None:
    """Four requests over three slots: 3 in flight, 1 queued, 0/0 at the end, every verdict good."""
    view = burst().view()

    assert failed(view) == []
    assert maxima(view) == (3, 1)
    assert provider_maxima(view) == {"a": 1, "b": 2}
    assert final_load(view) == (0, 0)


def test_a_gap_in_the_log_voids_the_round() -> None:
    """A gap event, a missing event and a missing tail each void the round."""
    view = burst().view()
    gap = {**view.events[0], "type": "gap", "request_id": None}

    assert void_kind(replace(view, events=(gap, *view.events[1:]))) == "gap"
    assert void_kind(replace(view, events=(*view.events[:2], *view.events[3:]))) == "gap"
    assert void_kind(replace(view, events=view.events[:-1])) == "gap"


def test_a_foreign_request_between_first_and_last_voids_the_round() -> None:
    """Other traffic inside of the burst's window voids it; before the first of ours it does not."""
    inside = full()
    inside.tell("granted", "stranger", "a")
    for one in ("r1", "r2", "r3"):
        inside.end(one)
    before = Story()
    before.tell("ended", "stranger", "a", outcome="completed")
    before.events += [{**event, "seq": event["seq"] + 1} for event in burst().events]
    before.ids = burst().ids

    assert void_kind(inside.view()) == "traffic"
    assert void_kind(before.view()) is None


def test_a_foreign_cli_call_voids_the_round() -> None:
    """Somebody else's direct request inside of the window is other traffic as well."""
    story = full()
    story.tell("direct_started", "stranger")

    story.end("r1")
    assert void_kind(story.view()) == "traffic"


def test_a_round_that_did_not_overlap_is_too_short() -> None:
    """The first request ended before the last had arrived: void, not a failure of capacity."""
    story = Story()
    story.grant("r1", "b")
    story.end("r1")
    story.grant("r2", "a")
    story.end("r2")

    assert void_kind(story.view()) == "short"


def test_a_failed_request_is_judged_and_not_called_short() -> None:
    """When a client saw a failure, too little overlap is no excuse."""
    story = Story()
    story.grant("r1", "b")
    story.end("r1", "failed")
    story.grant("r2", "a")
    story.end("r2")
    view = with_request(story.view(), "r1", outcome="failed", error="HTTP 502")

    assert "all succeed" in failed(view)


@pytest.mark.parametrize(
    "changes",
    [
        {"provider_snapshots": [{**status()["provider_snapshots"][0], "state": "down"}]},
        {"provider_snapshots": [{**status()["provider_snapshots"][0], "capacity": 9}]},
        {"provider_snapshots": status()["provider_snapshots"][:1]},
    ],
    ids=["down", "other capacity", "missing"],
)
def test_exactness_is_judged_only_when_all_is_ready_as_declared(changes: dict[str, Any]) -> None:
    """A provider that is down, resized or missing at the start voids the round."""
    view = burst().view()

    assert void_kind(replace(view, snapshots=(snapshot(**changes), snapshot()))) == "changed"


def test_a_change_of_the_pool_meanwhile_voids_the_round() -> None:
    """A provider event, another Edge process, or no status at all void the round."""
    story = full()
    story.tell("provider", None, "a")
    for one in ("r1", "r2", "r3"):
        story.end(one)
    view = burst().view()
    other = snapshot(edge={"id": "edge-test", "instance_id": "i2"})

    assert void_kind(story.view()) == "changed"
    assert void_kind(replace(view, snapshots=(snapshot(), other))) == "changed"
    assert void_kind(replace(view, snapshots=())) == "changed"


def test_one_slot_too_few_fails() -> None:
    """A leaked slot: only two ever in flight and two in line is no capacity of three."""
    story = Story()
    story.grant("r1", "b")
    story.grant("r2", "a")
    story.queue("w1")
    story.queue("w2")
    for leaving, coming, provider in (("r1", "w1", "b"), ("r2", "w2", "a")):
        story.end(leaving)
        story.grant(coming, provider)
    story.end("w1")
    story.end("w2")

    assert failed(story.view()) == ["total in flight reaches capacity", "exactly 1 queued"]


def test_one_slot_too_many_fails() -> None:
    """Four in flight over three slots fails for the total, the line and the provider."""
    story = full(more=0)
    story.grant("r4", "a")
    for one in ("r1", "r2", "r3", "r4"):
        story.end(one)

    assert failed(story.view()) == [
        "total in flight reaches capacity",
        "exactly 1 queued",
        "no provider over its capacity",
        "first in, first out",
    ]


def test_a_provider_over_its_capacity_fails_although_the_total_is_right() -> None:
    """Two on provider a (1 slot) and one on b is a total of three and still wrong."""
    story = Story()
    for request_id, provider in (("r1", "a"), ("r2", "a"), ("r3", "b")):
        story.grant(request_id, provider)
    story.queue("w1")
    story.end("r1")
    story.grant("w1", "b")
    for one in ("r2", "r3", "w1"):
        story.end(one)

    assert failed(story.view()) == ["no provider over its capacity"]


def test_a_client_without_a_whole_answer_fails() -> None:
    """A failed answer fails the round and is named; so does an answer that is not in the history."""
    view = with_request(burst().view(), "r2", outcome="failed", error="the answer ended without its last event")
    [verdict] = [verdict for verdict in judge_round(view) if not verdict.ok]
    lost = replace(burst().view(), requests=burst().view().requests[1:])

    assert verdict.name == "all succeed"
    assert "r2: the answer ended without its last event" in verdict.detail
    assert failed(lost) == ["all succeed"]


def test_being_served_out_of_order_fails() -> None:
    """The second waiter served before the first is barging."""
    story = full(more=2)
    story.end("r1")
    story.grant("w2", "b")
    story.end("r2")
    story.grant("w1", "a")
    for one in ("r3", "w1", "w2"):
        story.end(one)

    assert failed(story.view("order")) == ["first in, first out"]


def test_a_request_handed_back_or_granted_twice_fails() -> None:
    """A second grant of one request is seen, although everybody is satisfied."""
    story = full()
    story.end("r1")
    story.grant("w1", "b")
    story.tell("returned", "w1", "b")
    story.tell("granted", "w1", "b")
    for one in ("r2", "r3", "w1"):
        story.end(one)

    assert failed(story.view("order")) == ["granted once, ended once", "first in, first out"]


def test_a_slot_held_at_the_end_fails() -> None:
    """A request that never ended leaves 1/0: log and status are both asked."""
    story = full()
    story.end("r1")
    story.grant("w1", "b")
    story.end("r2")
    story.end("r3")
    view = burst().view()
    busy = snapshot(totals={**status()["totals"], "in_flight": 1})

    assert "final 0/0" in failed(story.view())
    assert "final 0/0" in failed(replace(view, snapshots=(snapshot(), busy)))


def test_a_broken_law_in_any_snapshot_fails() -> None:
    """Counters that do not add up in one snapshot in the middle fail the round."""
    view = burst().view()
    broken = snapshot(totals={**status()["totals"], "admitted": 1})

    assert failed(replace(view, snapshots=(snapshot(), broken, snapshot()))) == ["conservation law at every snapshot"]


def test_a_new_anomaly_fails_and_an_old_one_does_not() -> None:
    """Only anomalies counted during the round are its own."""
    view = burst().view()
    old = snapshot(anomalies={"double_release": 3, "stale_release": 0, "node_over_capacity": 0})

    assert failed(replace(view, snapshots=(old, old))) == []
    assert failed(replace(view, snapshots=(snapshot(), old))) == ["no anomalies"]


def test_the_engines_own_counters_are_held_against_the_log() -> None:
    """An engine that was offered more than its slots, or saw other runs than were granted, fails the round."""
    view = burst().view()
    good = (engine("a", peak=1, runs=1), engine("b", peak=2, runs=3))

    assert failed(replace(view, engines=good)) == []
    assert failed(replace(view, engines=(engine("a", peak=2, runs=1),))) == ["engine counters of a"]
    assert failed(replace(view, engines=(engine("b", peak=2, runs=4),))) == ["engine counters of b"]


def beside(*types: str, early: bool = False) -> RoundView:
    """A burst with a CLI call whose events are `types`, while the pool is full or (`early`) before."""
    story = Story()
    for request_id, provider in (("r1", "b"), ("r2", "a")):
        story.grant(request_id, provider)
    if early:
        story.tell(types[0], "cli")
    story.grant("r3", "b")
    story.queue("w1")
    for kind in types[1:] if early else types:
        story.tell(kind, "cli")
    story.end("r1")
    story.grant("w1", "b")
    for one in ("r2", "r3", "w1"):
        story.end(one)
    return story.view("cli_beside", cli=True)


def test_a_cli_call_beside_the_full_pool_is_proved() -> None:
    """Started and ended while all slots were taken, on its node, without provider, slot or place."""
    assert failed(beside("direct_started", "direct_ended")) == []


def test_a_cli_call_that_was_too_late_or_too_early_is_no_proof() -> None:
    """A call that did not start while the pool was full voids the round."""
    assert void_kind(beside("direct_started", "direct_ended", early=True)) == "short"
    assert void_kind(beside()) == "short"


def test_a_cli_call_that_queues_or_takes_a_slot_fails() -> None:
    """A place in line, a provider header or another node's answer each fail the case."""
    good = beside("direct_started", "direct_ended")

    assert failed(beside("queued", "direct_started", "direct_ended")) == ["CLI call takes no slot and no place"]
    assert failed(with_request(good, "cli", provider="a")) == ["CLI call ran on its node"]
    assert failed(with_request(good, "cli", node="n2")) == ["CLI call ran on its node"]
    assert failed(with_request(good, "cli", text="")) == ["CLI call answered"]
    assert failed(with_request(good, "cli", outcome="failed", error="HTTP 503")) == ["CLI call answered"]


def test_a_client_that_leaves_the_line_is_forgotten() -> None:
    """Queued, then abandoned: proved; granted after it left: failed; granted before it could leave: void."""
    good, late, short = full(), full(), full()
    for story in (good, late):
        story.abandon("w1")
    late.end("r1")
    late.grant("w1", "b")
    short.end("r1")
    short.grant("w1", "b")
    short.end("w1")
    for story in (good, late, short):
        for one in list(story.held):
            story.end(one)

    assert failed(good.view("left_queued", leaver="w1")) == []
    assert failed(late.view("left_queued", leaver="w1")) == ["the client that left freed its place"]
    assert void_kind(short.view("left_queued", leaver="w1")) == "short"


@pytest.mark.parametrize(
    ("outcome", "ended"), [("cancelled", []), ("failed", ["the client that left freed its place"])]
)
def test_a_client_that_leaves_its_stream_frees_its_slot(outcome: str, ended: list[str]) -> None:
    """Its run ends as cancelled, and the one that waits is served; any other end fails."""
    story = full()
    story.end("r1", outcome)
    story.grant("w1", "b")
    for one in ("r2", "r3", "w1"):
        story.end(one)

    assert failed(story.view("left_streaming", leaver="r1")) == ended


def test_a_stream_that_ended_before_its_client_left_is_no_proof() -> None:
    """A completed run cannot prove what happens when a client leaves."""
    assert void_kind(burst().view("left_streaming", leaver="r1")) == "short"


def test_no_event_at_all_is_a_failure_and_not_a_pass() -> None:
    """A round of which the log knows nothing proves nothing: every numeric verdict fails."""
    story = Story()
    story.ids = ["r1", "r2", "r3", "r4"]
    view = replace(story.view(), requests=tuple(request(one) for one in story.ids))

    assert "total in flight reaches capacity" in failed(view)
    assert "final 0/0" in failed(view)
