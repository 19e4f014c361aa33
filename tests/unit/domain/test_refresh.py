"""Taking over a changed config while work runs and requests wait."""

from iop.domain.effects import Effect, EffectType, Load
from iop.domain.snapshots import ProviderState
from iop.domain.specs import Ask, PoolSpec, ProviderSpec
from tests.fakes.desk import Desk, pool_of, terse


def _codes(effects: tuple[Effect, ...]) -> dict[str | None, str]:
    return {effect.request_id: effect.error.code for effect in effects if effect.error is not None}


def test_growth_starts_that_many_waiters_at_once() -> None:
    """Two more slots grant the two earliest waiters, and the change is told before."""
    desk = Desk({"a": 1})
    desk.ask("r1", "w1", "w2", "w3")
    happened = desk.do("configure", pool_of({"a": 3}))
    assert terse(happened) == [("capacity", "a"), ("granted", "w1", "a"), ("granted", "w2", "a")]
    assert (happened[0].reason, happened[0].totals) == ("1 -> 3", Load(3, 1, 3))


def test_shrinking_lets_holders_finish_and_shows_the_debt() -> None:
    """Nothing is handed over until in-flight is below the new capacity; over_by shows how far it is above."""
    desk = Desk({"a": 3})
    desk.ask("r1", "r2", "r3", "w1")
    assert terse(desk.do("configure", pool_of({"a": 1}))) == [("capacity", "a")]
    assert (desk.provider("a").over_by, desk.provider("a").capacity) == (2, 1)
    assert desk.end("r1") == [("ended", "r1", "a")]
    assert desk.end("r2") == [("ended", "r2", "a")]
    assert desk.provider("a").over_by == 0
    assert desk.end("r3") == [("ended", "r3", "a"), ("granted", "w1", "a")]


def test_the_same_config_again_changes_nothing() -> None:
    """No effect, no grant, no counter."""
    desk = Desk({"a": 1})
    desk.ask("r1", "w1")
    before = desk.snapshot()
    assert desk.do("configure", pool_of({"a": 1})) == ()
    assert desk.snapshot() == before


def test_an_added_provider_takes_waiters_when_its_node_is_linked() -> None:
    """It is offline until its node connects; on a linked node it serves at once."""
    desk = Desk({"a": 1})
    desk.ask("r1", "w1", "w2")
    assert terse(desk.do("configure", pool_of({"a": 1, "b": 1}))) == [("provider", "b")]
    assert desk.provider("b").state is ProviderState.OFFLINE
    assert desk.provider("b").queued == 2
    assert terse(desk.do("node_connected", "n-b", 1))[-1] == ("granted", "w1", "b")
    three = PoolSpec((*pool_of({"a": 1, "b": 1}).providers, ProviderSpec("c", "n-b", 1)), {"m": ("a", "b", "c")})
    assert terse(desk.do("configure", three)) == [("provider", "c"), ("granted", "w2", "c")]


def test_a_removed_provider_stays_until_its_last_lease_ended() -> None:
    """It is shown as removing, gets nothing new, and its counters stay in the totals when it is gone."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", "r2", "w1")
    happened = desk.do("configure", pool_of({"a": 1}))
    assert [(effect.provider_id, effect.reason) for effect in happened] == [("b", "removing: removed from the config")]
    assert (happened[0].totals.capacity, happened[0].provider) == (1, Load(1, 1, 0))
    assert (desk.provider("b").state, desk.provider("b").in_flight) == (ProviderState.REMOVING, 1)
    assert desk.end("r2") == [("ended", "r2", "b")]
    assert [provider.provider_id for provider in desk.snapshot().providers] == ["a"]
    assert desk.snapshot().totals.completed == 1
    assert [node.id for node in desk.snapshot().nodes] == ["n-a", "n-b"]


def test_an_idle_provider_is_removed_at_once_and_counts_on_when_it_returns() -> None:
    """Counters never go down: a provider that comes back goes on from its own."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", "r2")
    desk.end("r2")
    desk.do("configure", pool_of({"a": 1}))
    assert [provider.provider_id for provider in desk.snapshot().providers] == ["a"]
    desk.do("configure", pool_of({"a": 1, "b": 1}))
    assert (desk.provider("b").completed, desk.provider("b").state) == (1, ProviderState.READY)


def test_a_removal_taken_back_in_time_is_none() -> None:
    """A provider that is declared again while it still holds a lease is ready as before."""
    desk = Desk({"a": 1})
    desk.ask("r1", "w1")
    desk.do("configure", pool_of({"b": 1}, {"m": ("b",)}))
    happened = desk.do("configure", pool_of({"a": 2}))
    assert terse(happened)[-1] == ("granted", "w1", "a")
    assert desk.provider("a").in_flight == 2


def test_waiters_follow_a_rerouted_model() -> None:
    """A model that moves to another provider takes its waiters along, in order."""
    desk = Desk({"a": 1, "b": 1}, {"m": ("a",)})
    desk.ask("r1", "w1", "w2")
    happened = desk.do("configure", pool_of({"a": 1, "b": 1}, {"m": ("b",)}))
    assert terse(happened) == [("granted", "w1", "b")]
    assert (desk.provider("a").queued, desk.provider("b").queued) == (0, 1)
    assert desk.end("r1") == [("ended", "r1", "a")]


def test_waiters_of_a_model_that_is_gone_expire() -> None:
    """404 model_not_found for the model's waiters, nobody else's."""
    desk = Desk({"a": 1}, {"m": ("a",), "other": ("a",)})
    desk.ask("r1", "w1")
    desk.ask("w2", model="other")
    happened = desk.do("configure", pool_of({"a": 1}, {"other": ("a",)}))
    assert (terse(happened), _codes(happened)) == ([("expired", "w1")], {"w1": "model_not_found"})
    assert (desk.snapshot().totals.expired, desk.admission.load().queued) == (1, 1)
    assert desk.end("r1")[-1] == ("granted", "w2", "a")


def test_a_waiter_whose_last_candidate_is_removed_expires_with_its_failures() -> None:
    """A returned request that had only that provider left gets 502, with each failure by kind."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", "r2")
    desk.do("give_back", desk.lease_of("r1"), "reset")
    happened = desk.do("configure", pool_of({"a": 1}))
    assert _codes(happened) == {"r1": "upstream_unreachable"}
    assert "a: reset" in str(next(effect.error for effect in happened if effect.type is EffectType.EXPIRED))


def test_a_waiting_check_of_a_removed_provider_expires() -> None:
    """Its provider does not exist any more: 404."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", "r2")
    desk.do("ask", Ask("check", "m", check="b"))
    assert _codes(desk.do("configure", pool_of({"a": 1}))) == {"check": "not_found"}


def test_new_bounds_hold_for_newcomers() -> None:
    """A deadline already given stays; max_waiting counts from now on."""
    desk = Desk({"a": 1}, max_wait=50.0, max_waiting=5)
    desk.ask("r1", "w1")
    desk.do("configure", pool_of({"a": 1}, max_wait=10.0, max_waiting=2))
    desk.ask("w2")
    assert desk.ask("w3") == [("refused", "w3")]
    assert desk.admission.next_wakeup() == 110.0
    desk.now = 110.0
    assert terse(desk.do("tick")) == [("expired", "w2")]
    assert desk.admission.next_wakeup() == 150.0


def test_losing_every_live_candidate_by_a_refresh_starts_the_grace() -> None:
    """When only an offline provider is left, its waiters wait for the grace from then on."""
    desk = Desk({"a": 1, "b": 1}, offline_grace=5.0, max_wait=1000.0)
    desk.do("node_lost", "n-b", 1)
    desk.ask("r1", "w1")
    desk.now = 200.0
    desk.do("configure", pool_of({"b": 1}, offline_grace=5.0))
    assert desk.admission.next_wakeup() == 205.0


def test_a_provider_may_move_to_another_node() -> None:
    """Its open lease stays with the old link, and new work goes by the new node."""
    desk = Desk({"a": 1, "b": 1}, {"m": ("a",)})
    desk.ask("r1")
    moved = PoolSpec((ProviderSpec("a", "n-b", 2), ProviderSpec("b", "n-b", 1)), {"m": ("a",)})
    desk.do("configure", moved)
    desk.ask("r2")
    leases = [desk.admission.lease(desk.lease_of(request)) for request in ("r1", "r2")]
    assert [lease.node_id for lease in leases if lease] == ["n-a", "n-b"]
