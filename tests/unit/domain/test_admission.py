"""Asking, waiting, leases and the ends of requests."""

import pytest

from iop.domain.admission import Admission
from iop.domain.effects import Effect, Load, Outcome
from iop.domain.specs import Ask, LineBounds
from tests.fakes.desk import Desk, pool_of, terse


def _error(effects: tuple[Effect, ...]) -> tuple[int, str]:
    error = effects[-1].error
    assert error is not None
    return error.status, error.code


def test_a_request_that_gets_a_slot_at_once_has_no_queued_effect() -> None:
    """A grant with a free slot is one effect, with the lease and the load right after it."""
    desk = Desk({"a": 3})
    (effect,) = desk.do("ask", Ask("r1", "m"))
    assert terse((effect,)) == [("granted", "r1", "a")]
    assert (effect.totals, effect.provider) == (Load(3, 1, 0), Load(3, 1, 0))
    assert effect.lease is not None
    assert (effect.lease.node_id, effect.lease.epoch, effect.lease.waited) == ("n-a", 1, 0.0)
    assert desk.admission.lease(effect.lease.id) == effect.lease


def test_capacity_and_one_over_leaves_exactly_one_waiting() -> None:
    """Field case B09: eleven requests on 3 + 4 + 3 slots hold ten, and one waits until a lease has really ended."""
    desk = Desk({"mac": 3, "gx10": 4, "onex": 3})
    happened = desk.ask(*(f"r{number}" for number in range(11)))
    assert [entry[0] for entry in happened] == ["granted"] * 10 + ["queued"]
    assert desk.admission.load() == Load(10, 10, 1)
    assert {p.provider_id: p.in_flight for p in desk.snapshot().providers} == {"mac": 3, "gx10": 4, "onex": 3}
    desk.now += 2.0
    (ended, granted) = desk.do("end", desk.lease_of("r4"), Outcome.COMPLETED)
    assert (ended.totals, granted.totals) == (Load(10, 9, 1), Load(10, 10, 0))
    assert granted.lease is not None
    assert (granted.request_id, granted.provider_id, granted.lease.waited) == ("r10", ended.provider_id, 2.0)


def test_a_newcomer_never_passes_a_waiter() -> None:
    """Field case B08: the freed slot goes to the head of the line although a newcomer asks in the same moment."""
    desk = Desk({"a": 1})
    desk.ask("r1", "r2", "r3")
    assert desk.end("r1") == [("ended", "r1", "a"), ("granted", "r2", "a")]
    assert desk.ask("r4") == [("queued", "r4")]
    assert desk.end("r2")[-1] == ("granted", "r3", "a")
    assert desk.end("r3")[-1] == ("granted", "r4", "a")


def test_a_waiter_for_one_model_never_blocks_a_later_one_for_another() -> None:
    """The freed slot goes to the earliest that can use that provider, past an earlier one that cannot."""
    desk = Desk({"a": 1, "b": 1}, {"only-a": ("a",), "both": ("a", "b")})
    desk.ask("r1", model="only-a")
    desk.ask("r2", model="both")
    desk.ask("w1", model="only-a")
    desk.ask("w2", model="both")
    assert desk.end("r2") == [("ended", "r2", "b"), ("granted", "w2", "b")]
    assert desk.end("r1") == [("ended", "r1", "a"), ("granted", "w1", "a")]


def test_a_client_that_leaves_the_line_is_gone_at_once() -> None:
    """Field case B01: twenty waiters leave, none keeps a place or is ever granted, and the next caller is next."""
    desk = Desk({"a": 1})
    desk.ask("running", *(f"gone{number}" for number in range(20)), "normal")
    for number in range(20):
        assert terse(desk.do("abandon", f"gone{number}")) == [("abandoned", f"gone{number}")]
    assert desk.admission.load() == Load(1, 1, 1)
    assert desk.end("running") == [("ended", "running", "a"), ("granted", "normal", "a")]
    desk.end("normal")
    assert (desk.snapshot().totals.admitted, desk.snapshot().totals.abandoned) == (2, 20)


def test_leaving_is_nothing_for_one_who_does_not_wait() -> None:
    """An unknown id, one that holds a slot, and one that left already: no effect."""
    desk = Desk({"a": 1})
    desk.ask("r1", "r2")
    desk.do("abandon", "r2")
    assert [desk.do("abandon", request) for request in ("r1", "r2", "unknown")] == [(), (), ()]


def test_a_slot_is_given_back_once() -> None:
    """Field case B06: a second release changes nothing, admits nobody, and is counted."""
    desk = Desk({"a": 1})
    desk.ask("r1", "r2", "r3")
    lease = desk.lease_of("r1")
    desk.end("r1")
    assert desk.do("end", lease, Outcome.COMPLETED) == ()
    assert desk.do("give_back", lease, "reset") == ()
    assert desk.do("end", 999, Outcome.COMPLETED) == ()
    assert desk.admission.load() == Load(1, 1, 1)
    anomalies = desk.snapshot().anomalies
    assert (anomalies.double_release, anomalies.stale_release) == (3, 0)


@pytest.mark.parametrize("outcome", Outcome)
def test_each_end_is_counted_once(outcome: Outcome) -> None:
    """The outcome told is the counter that moves, and the effect carries it with the reason."""
    desk = Desk({"a": 1})
    desk.ask("r1")
    (effect,) = desk.do("end", desk.lease_of("r1"), outcome, reason="why")
    assert (effect.outcome, effect.reason, effect.error) == (outcome, "why", None)
    totals = desk.snapshot().totals
    assert {name: getattr(totals, name) for name in Outcome} == {name: int(name is outcome) for name in Outcome}


def test_a_request_id_waits_once() -> None:
    """Two waiters of one id could not be told apart: the second is a fault of the caller and changes nothing."""
    desk = Desk({"a": 1})
    desk.ask("r1", "r2")
    with pytest.raises(ValueError, match="waits already"):
        desk.ask("r2")
    assert (desk.admission.load(), desk.snapshot().totals.received) == (Load(1, 1, 1), 2)


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_max_waiting_lets_so_many_wait() -> None:
    """Field case B10: with queue.max_waiting 3 three wait and the fourth is refused, until a place is free again."""
    desk = Desk({"a": 1}, max_waiting=3)
    desk.ask("r1", "w1", "w2", "w3")
    refused = desk.do("ask", Ask("w4", "m"))
    assert _error(refused) == (429, "queue_full")
    assert "queue.max_waiting" in refused[0].error.message
    desk.do("abandon", "w2")
    assert desk.ask("w5") == [("queued", "w5")]
    assert desk.snapshot().totals.refused == 1


def test_nobody_waits_with_max_waiting_0() -> None:
    """A line of no places still grants what is free."""
    desk = Desk({"a": 1}, max_waiting=0)
    assert desk.ask("r1", "r2") == [("granted", "r1", "a"), ("refused", "r2")]


def test_a_key_has_its_own_places() -> None:
    """auth.api_keys[].max_waiting bounds the waiters of one key and nobody else's; leaving frees the place."""
    desk = Desk({"a": 1})
    alice = {"key": "alice", "key_max_waiting": 1}
    assert desk.ask("r1", "r2", **alice) == [("granted", "r1", "a"), ("queued", "r2")]
    refused = desk.do("ask", Ask("r3", "m", **alice))
    assert _error(refused) == (429, "queue_full")
    assert "auth.api_keys[].max_waiting" in refused[0].error.message
    assert desk.ask("r4", key="bob", key_max_waiting=1) == [("queued", "r4")]
    assert desk.ask("r5") == [("queued", "r5")]
    desk.end("r1")
    assert desk.ask("r6", **alice) == [("queued", "r6")]


def test_a_waiter_expires_at_its_deadline() -> None:
    """Field case B10: after queue.max_wait the answer is 503 queue_timeout, and the machine says when to be woken."""
    desk = Desk({"a": 1}, max_wait=10.0)
    desk.ask("r1", "w1")
    assert desk.admission.next_wakeup() == 110.0
    desk.now = 109.9
    assert desk.do("tick") == ()
    desk.now = 110.0
    expired = desk.do("tick")
    assert (terse(expired), _error(expired)) == ([("expired", "w1")], (503, "queue_timeout"))
    assert "queue.max_wait" in expired[0].error.message
    assert desk.admission.next_wakeup() is None


# -- one provider's check, and the end ---------------------------------------------------------------------------------


def test_a_check_takes_a_slot_of_its_provider_in_the_same_order() -> None:
    """It waits behind earlier waiters, ahead of later ones, for that provider only, and counts like any request."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", "r2", "w1")
    assert terse(desk.do("ask", Ask("check", "m", check="a"))) == [("queued", "check")]
    desk.ask("w2")
    assert desk.end("r2")[-1] == ("granted", "w1", "b")
    assert desk.end("w1")[-1] == ("granted", "w2", "b")
    assert desk.end("r1")[-1] == ("granted", "check", "a")
    assert desk.snapshot().totals.received == 5


def test_a_check_ignores_the_drain() -> None:
    """A drained provider serves its check at once while others wait."""
    desk = Desk({"a": 1})
    desk.do("drain", "n-a", 500.0, "upgrade")
    assert desk.ask("r1") == [("queued", "r1")]
    assert terse(desk.do("ask", Ask("c1", "m", check="a"))) == [("granted", "c1", "a")]
    assert terse(desk.do("ask", Ask("c2", "m", check="a"))) == [("queued", "c2")]
    assert desk.end("c1") == [("ended", "c1", "a"), ("granted", "c2", "a")]


def test_unknown_names_are_refused() -> None:
    """A model that is not of the pool and a provider that does not exist are refused with their 404."""
    desk = Desk({"a": 1})
    assert _error(desk.do("ask", Ask("r1", "nope"))) == (404, "model_not_found")
    assert _error(desk.do("ask", Ask("c1", "m", check="nope"))) == (404, "not_found")


def test_shutting_down_refuses_newcomers_and_keeps_waiters() -> None:
    """Who waits may still be granted; when the drain is over, the rest expires and nobody gets back in line."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", "r2", "w1", "w2")
    assert desk.do("shut_down") == ()
    assert _error(desk.do("ask", Ask("r3", "m"))) == (503, "shutting_down")
    assert desk.end("r1")[-1] == ("granted", "w1", "a")
    expired = desk.do("expire_all")
    assert (terse(expired), _error(expired)) == ([("expired", "w2")], (503, "shutting_down"))
    ended = desk.do("give_back", desk.lease_of("w1"), "reset")
    assert (terse(ended), _error(ended)) == ([("ended", "w1", "a")], (503, "shutting_down"))
    assert desk.ask("r4") == [("refused", "r4")]


def test_bounds_given_at_the_start_hold_until_the_first_config() -> None:
    """Before any config every model is unknown, so nothing waits and nothing is due."""
    admission = Admission(LineBounds(max_waiting=1))
    (refused,) = admission.ask(Ask("r1", "m"), 0.0)
    assert refused.error is not None
    assert refused.error.code == "model_not_found"
    assert (admission.load(), admission.next_wakeup()) == (Load(0, 0, 0), None)


def test_a_request_that_continues_a_response_waits_for_its_maker() -> None:
    """The maker is full and another has room: it waits in line for its own, in order, and a later one passes nobody."""
    desk = Desk({"a": 1, "b": 2})
    assert desk.ask("r1", owner="a") == [("granted", "r1", "a")]
    assert desk.ask("w1", owner="a") == [("queued", "w1")]
    assert desk.ask("r2") == [("granted", "r2", "b")]
    assert desk.ask("r3", "w2") == [("granted", "r3", "b"), ("queued", "w2")]
    assert desk.end("r1") == [("ended", "r1", "a"), ("granted", "w1", "a")]
    assert desk.end("w1") == [("ended", "w1", "a"), ("granted", "w2", "a")]


def test_the_drain_of_a_responses_maker_is_waited_for() -> None:
    """Unlike a check, a request that continues a response gets no slot of a draining provider."""
    desk = Desk({"a": 1, "b": 1})
    desk.do("drain", "n-a", 200.0, "upgrade")
    assert desk.ask("w1", owner="a") == [("queued", "w1")]
    desk.now = 200.0
    assert ("granted", "w1", "a") in terse(desk.do("tick"))


def test_a_response_whose_maker_is_gone_is_not_found() -> None:
    """At the door and in line: 404 when the provider left the config, or serves the model no longer."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", owner="a")
    desk.ask("w1", owner="a")
    effects = desk.do("configure", pool_of({"a": 1, "b": 1}, {"m": ("b",)}))
    assert [(e.request_id, e.error.code) for e in effects if e.error] == [("w1", "previous_response_not_found")]
    assert _error(desk.do("ask", Ask("r2", "m", owner="a"))) == (404, "previous_response_not_found")
    assert _error(desk.do("ask", Ask("r3", "m", owner="never heard of"))) == (404, "previous_response_not_found")
    assert _error(desk.do("ask", Ask("r4", "gone", owner="a"))) == (404, "model_not_found")


def test_a_responses_maker_that_fails_is_not_replaced() -> None:
    """Its grant fails without a status: nobody else can continue the response, so the client is told 502."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", owner="a")
    (ended,) = desk.do("give_back", desk.lease_of("r1"), "reset")
    assert (ended.type.value, ended.outcome, _error((ended,))) == ("ended", "failed", (502, "upstream_unreachable"))


def test_a_responses_maker_that_stays_away_is_told_by_name() -> None:
    """Offline for longer than the grace: 503 names the provider, for the others are there."""
    desk = Desk({"a": 1, "b": 1}, offline_grace=5.0)
    desk.do("node_lost", "n-a", 1)
    assert desk.ask("w1", owner="a") == [("queued", "w1")]
    desk.now += 5.0
    (expired,) = desk.do("tick")
    assert _error((expired,)) == (503, "no_provider_available")
    assert "Provider 'a', the only one that can serve this request" in expired.error.message
