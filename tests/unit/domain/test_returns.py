"""Back to the line: what becomes of a grant that failed before any status came."""

import pytest

from iop.domain.effects import Effect, Load, Outcome
from tests.fakes.desk import Desk, terse


def _error(effects: tuple[Effect, ...]) -> tuple[int, str]:
    error = effects[-1].error
    assert error is not None
    return error.status, error.code


def test_a_returned_request_keeps_its_place_and_avoids_the_failed_provider() -> None:
    """It is ahead of all who came later, behind nobody, and its provider serves the next waiter at once."""
    desk = Desk({"a": 1, "b": 1}, max_waiting=2)
    desk.ask("r1", "r2", "w1", "w2")
    returned = desk.do("give_back", desk.lease_of("r1"), "unreachable", detail="refused")
    assert terse(returned) == [("returned", "r1", "a"), ("granted", "w1", "a")]
    assert (returned[0].reason, returned[0].totals) == ("unreachable: refused", Load(2, 1, 3))
    assert desk.end("r2") == [("ended", "r2", "b"), ("granted", "r1", "b")]
    assert desk.lease_of("r1")
    assert desk.provider("a").returned == 1


def test_a_returned_request_takes_an_idle_provider_at_once() -> None:
    """With another candidate free it does not wait for an event."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1")
    happened = terse(desk.do("give_back", desk.lease_of("r1"), "reset"))
    assert happened == [("returned", "r1", "a"), ("granted", "r1", "b")]


def test_a_return_is_exempt_from_the_bounds_and_keeps_its_deadline() -> None:
    """The line may be over max_waiting by returns; newcomers are refused then, and the old deadline holds."""
    desk = Desk({"a": 1, "b": 1}, max_waiting=0, max_wait=10.0)
    desk.ask("r1", "r2")
    desk.now = 105.0
    assert terse(desk.do("give_back", desk.lease_of("r1"), "reset")) == [("returned", "r1", "a")]
    desk.do("drain", "n-a", 1000.0, None)
    assert desk.ask("r3") == [("refused", "r3")]
    assert desk.admission.next_wakeup() == 110.0


def test_no_candidate_left_ends_the_grant_as_failed() -> None:
    """Each provider is tried once; then 502 names each provider's failure by kind, and nothing is returned."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1")
    desk.do("give_back", desk.lease_of("r1"), "unreachable", detail="secret host refused")
    ended = desk.do("give_back", desk.lease_of("r1"), "link_lost")
    assert (terse(ended), _error(ended)) == ([("ended", "r1", "b")], (502, "upstream_unreachable"))
    assert ended[0].outcome is Outcome.FAILED
    assert "a: unreachable, b: link_lost" in ended[0].error.message
    totals = desk.snapshot().totals
    assert (totals.admitted, totals.returned, totals.failed) == (2, 1, 1)


def test_busy_excludes_nobody_and_stops_that_provider_until_it_is_heard_of() -> None:
    """The request is in line again for the same provider, which gets no grant until its next end, probe or hello."""
    desk = Desk({"a": 2})
    desk.ask("r1", "r2")
    assert terse(desk.do("give_back", desk.lease_of("r2"), "busy")) == [("returned", "r2", "a")]
    assert desk.ask("r3") == [("queued", "r3")]
    assert desk.end("r1") == [("ended", "r1", "a"), ("granted", "r2", "a"), ("granted", "r3", "a")]
    assert desk.snapshot().anomalies.node_over_capacity == 1


def test_a_stopping_node_declines_without_an_anomaly() -> None:
    """A node that leaves declines what raced its leaving: like busy, but nobody did anything wrong."""
    desk = Desk({"a": 1})
    desk.ask("r1")
    assert terse(desk.do("give_back", desk.lease_of("r1"), "stopping")) == [("returned", "r1", "a")]
    assert desk.provider("a").in_flight == 0
    assert desk.snapshot().anomalies.node_over_capacity == 0


def test_a_busy_provider_that_holds_nothing_waits_for_a_good_probe() -> None:
    """With no run of ours to end there, a good probe lets it take work again; a bad one does not."""
    desk = Desk({"a": 1})
    desk.ask("r1")
    desk.do("give_back", desk.lease_of("r1"), "busy")
    assert desk.provider("a").reason == "its node said busy"
    assert terse(desk.do("provider_health", "a", False, "HTTP 500")) == [("provider", "a")]
    assert terse(desk.do("provider_health", "a", True, None)) == [("provider", "a"), ("granted", "r1", "a")]


def test_a_hello_alone_ends_a_busy_block() -> None:
    """The new link's node has told what it still runs, so its free slots are known again."""
    desk = Desk({"a": 1})
    desk.ask("r1")
    desk.do("give_back", desk.lease_of("r1"), "busy")
    assert terse(desk.do("node_connected", "n-a", 2)) == [("granted", "r1", "a")]


def test_a_failure_of_another_kind_never_returns_a_request() -> None:
    """Only failures without an HTTP status lead back to the line; another word is a fault of the caller."""
    desk = Desk({"a": 1})
    desk.ask("r1")
    with pytest.raises(ValueError, match="status"):
        desk.do("give_back", desk.lease_of("r1"), "status")
    assert desk.admission.load() == Load(1, 1, 0)


def test_failures_in_a_row_leak_no_slot() -> None:
    """Field case B05: after many failed runs every slot is free and the same provider serves the next request."""
    desk = Desk({"a": 3})
    for number in range(12):
        desk.ask(f"r{number}")
        if number % 2:
            desk.end(f"r{number}", Outcome.FAILED)
        else:
            desk.do("give_back", desk.lease_of(f"r{number}"), "reset")
    assert desk.admission.load() == Load(3, 0, 0)
    assert desk.ask("good") == [("granted", "good", "a")]
