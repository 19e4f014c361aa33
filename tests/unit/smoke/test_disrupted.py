"""Rounds in which something is taken away: each assumption can void them, and each verdict can fail."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from smoke.history import RoundKind
from smoke.verdicts import judge_round, void
from smoke.view import RoundView, story
from tests.fakes.smoke_story import Story, away, engine, full, snapshot, status, with_request


def failed(view: RoundView) -> list[str]:
    """Names of the verdicts that are not good."""
    assert void(view) is None
    return [verdict.name for verdict in judge_round(view) if not verdict.ok]


def cut_round(kind: RoundKind = "cut") -> RoundView:
    """A node that fell silent; the two requests that ran there were told so."""
    view = away("offline: link lost", cut=True).view(kind, node="n2")
    for one in ("r1", "r3"):
        view = with_request(view, one, outcome="failed", error="…", code="upstream_unreachable")
    return view


def line_full(bend: Callable[[Story], None] = lambda story: None) -> RoundView:
    """Three slots and two places, a sixth request that is refused, and the two that waited leave."""
    told = full(more=2)
    told.ids.append("x1")
    told.tell("refused", "x1")
    bend(told)
    for one in list(told.waiting):
        told.abandon(one)
    for one in ("r1", "r2", "r3"):
        told.end(one)
    view = told.view("line_full")
    view = with_request(
        view, "x1", outcome="failed", status=429, code="queue_full", retry_after="1",
        error="The line is full: 2 requests may wait (queue.max_waiting: 2).",
    )  # fmt: skip
    return with_request(with_request(view, "w1", outcome="left"), "w2", outcome="left")


def test_what_must_happen_is_proved() -> None:
    """A drain that nobody notices, a cut that is told, a kill that is repaired, a line that keeps its limit."""
    killed = cut_round("killed")
    again = status()
    again["nodes"][1]["instance_id"] = "another"
    killed = replace(killed, snapshots=(snapshot(), snapshot(nodes=again["nodes"])))

    for view in (away().view("drained", node="n2"), cut_round(), killed, line_full()):
        assert failed(view) == [], view.round.kind


def test_the_story_tells_when_the_node_went_and_came_back() -> None:
    """What the picture shows stands in words as well."""
    assert "n2 went at 0.5 s (offline: link lost) and was back at 1.0 s." in story(cut_round())
    gone = full(more=2)
    gone.node("n2", "offline: link lost")
    assert story(gone.view("cut", node="n2")).endswith("n2 went at 0.5 s (offline: link lost) and did not come back.")


@pytest.mark.parametrize("kind", ["drained", "killed", "cut"])
def test_a_node_without_work_or_waiters_proves_nothing(kind: RoundKind) -> None:
    """Taken away while it did nothing, while nobody waited, or not at all: void."""
    nobody_waits = full(more=0)
    nobody_waits.node("n2", "offline: link lost")
    no_work = Story()
    no_work.grant("r1", "a")
    no_work.queue("w1")
    no_work.node("n2", "draining: smoke")
    never = full(more=2)

    for told in (nobody_waits, no_work, never):
        why = void(told.view(kind, node="n2"))
        assert why is not None
        assert why.kind == "short"


def test_a_change_of_another_node_voids_the_round() -> None:
    """Only what is taken away on purpose may change."""
    told = away()
    told.node("n1", "offline: link lost")
    why = void(told.view("drained", node="n2"))

    assert why is not None
    assert why.reason == "the pool changed meanwhile: node n1 offline: link lost"


def test_a_slot_that_came_free_while_the_line_was_filled_voids_the_round() -> None:
    """Whether the refusal was right can then not be said."""
    why = void(line_full(lambda told: None))
    assert why is None
    told = full(more=2)
    told.end("r1")
    told.tell("refused", "x1")
    told.ids.append("x1")
    why = void(told.view("line_full"))

    assert why is not None
    assert why.reason == "a slot came free before the line was full"


def test_a_request_that_just_breaks_off_fails() -> None:
    """An error without a word, and a request of which nobody tells, are no clear end."""
    silent = with_request(cut_round(), "r1", code=None, error="the answer ended without its last event")
    missing = replace(cut_round(), requests=cut_round().requests[1:])

    assert failed(silent) == ["each request has an answer or a clear error"]
    assert "each request has an answer or a clear error" in failed(missing)


def test_a_request_that_is_lost_or_runs_twice_fails() -> None:
    """Exactly one end, and never two runs at once; what went back before it began runs again rightly."""
    lost = full(more=2)
    lost.node("n2", "offline: link lost")
    lost.node("n2", "connected")
    assert "nothing is lost" in failed(lost.view("cut", node="n2"))

    twice = away()
    twice.tell("granted", "w1", "b")
    twice.tell("ended", "w1", "b", outcome="completed")
    assert {"nothing is lost", "nothing runs twice"} <= set(failed(twice.view("drained", node="n2")))

    back = full(more=2)
    back.node("n2", "offline: link lost")
    back.back_in_line("r1")
    for one in ("r2", "r3"):
        back.end(one)
    back.grant("r1", "a")
    back.node("n2", "connected")
    back.grant("w1", "b")
    back.grant("w2", "b")
    for one in ("r1", "w1", "w2"):
        back.end(one)
    assert failed(back.view("cut", node="n2")) == []


def test_a_client_that_saw_something_else_than_the_log_fails() -> None:
    """An answer for what the log calls failed, or the reverse, is a lie of one of them."""
    view = with_request(cut_round(), "r1", outcome="ok", code=None, error=None)

    assert failed(view) == ["clients saw what the log says"]


def test_a_drained_node_that_gets_something_new_fails() -> None:
    """From the lease to its end nothing is granted there."""
    told = full(more=2)
    told.node("n2", "draining: smoke")
    told.end("r1")
    told.grant("w1", "b")
    for one in ("r2", "r3", "w1"):
        told.end(one)
    told.grant("w2", "a")
    told.node("n2", "connected")
    told.end("w2")

    assert "a drained node gets nothing new" in failed(told.view("drained", node="n2"))


def test_a_drain_that_cuts_a_request_fails() -> None:
    """A clear error is enough for a crash, not for a drain."""
    view = away(cut=True).view("drained", node="n2")
    for one in ("r1", "r3"):
        view = with_request(view, one, outcome="failed", error="…", code="upstream_unreachable")

    assert failed(view) == ["no request notices a drain"]


def test_an_environment_that_is_left_otherwise_fails() -> None:
    """A node that stays away, that nobody uses again, that is still drained, or is not the process it should be."""
    stays = full(more=2)
    stays.node("n2", "offline: link lost")
    for one in ("r1", "r2", "r3"):
        stays.end(one)
    assert "the node came back" in failed(stays.view("cut", node="n2"))

    view = away().view("drained", node="n2")
    nodes = status()["nodes"]
    nodes[1] |= {"drain": {"reason": "x", "left_s": 9.0}}
    down = status()["provider_snapshots"]
    down[1]["state"] = "down"
    for changes in ({"nodes": nodes}, {"provider_snapshots": down}, {"config": {"generation": 2, "sha256": "other"}}):
        bent = replace(view, snapshots=(snapshot(), snapshot(**changes)))
        assert failed(bent) == ["the environment is as it was"], changes

    assert failed(replace(view, round=msgspec.structs.replace(view.round, kind="killed"))) == [
        "its service manager has started it again"
    ]


def test_others_that_stand_idle_fail_and_those_that_are_busy_all_the_time_do_not() -> None:
    """Somebody waits, a slot elsewhere is free, and nothing is granted there until the node is back."""

    def absent(*, idle: bool) -> RoundView:
        told = full(more=2)
        told.node("n2", "draining: smoke")
        if idle:
            told.end("r2")
        for one in ("r1", "r3"):
            told.end(one)
        told.node("n2", "connected")
        for one in ("w1", "w2"):
            told.grant(one, "b")
        if not idle:
            told.end("r2")
        told.queue("w3")
        told.grant("w3", "a")
        for one in ("w1", "w2", "w3"):
            told.end(one)
        return told.view("drained", node="n2")

    assert "the others went on" in failed(absent(idle=True))
    assert failed(absent(idle=False)) == []


def test_an_engine_that_was_offered_too_much_fails() -> None:
    """What a killed node left behind must not be doubled by its return."""
    view = replace(cut_round(), engines=(engine("b", peak=3, runs=4),))

    assert failed(view) == ["engine of b was never offered more than its slots"]


def test_a_refusal_that_is_unclear_early_or_missing_fails() -> None:
    """429, the code, the limit in words and Retry-After; only when the line is full; and somebody must be refused."""
    for changes in ({"status": 503}, {"code": None}, {"retry_after": None}, {"retry_after": "0"}, {"error": "full"}):
        view = with_request(line_full(), "x1", **changes)
        assert failed(view) == ["who is refused is told why and when to come again"], changes

    def early(told: Story) -> None:
        told.abandon("w2")
        told.ids.append("x2")
        told.tell("refused", "x2")

    assert "the line has a limit and keeps it" in failed(line_full(early))
    unbounded = full(more=2)
    for one in list(unbounded.waiting):
        unbounded.abandon(one)
    for one in ("r1", "r2", "r3"):
        unbounded.end(one)
    assert "the line has a limit and keeps it" in failed(unbounded.view("line_full"))


def test_who_left_the_line_and_ran_nevertheless_fails() -> None:
    """No engine may see what nobody waits for."""

    def ghost(told: Story) -> None:
        told.tell("granted", "w1", "b")

    assert "who left the line never ran" in failed(line_full(ghost))
