"""Nodes, links, drains and probes: what they do to slots and waiters."""

import pytest

from iop.domain.admission import Admission
from iop.domain.effects import Effect, EffectType, Load, Outcome
from iop.domain.snapshots import NodeState, ProviderState
from iop.domain.specs import Ask, LineBounds, PoolSpec, ProviderSpec
from tests.fakes.desk import Desk, pool_of, terse


def _code(effect: Effect) -> str:
    assert effect.error is not None
    return effect.error.code


def _reasons(effects: tuple[Effect, ...], kind: EffectType) -> list[str | None]:
    return [effect.reason for effect in effects if effect.type is kind]


def test_a_model_without_a_live_provider_waits_for_the_grace() -> None:
    """Before the first link a request waits; offline_grace later it is 503 no_provider_available."""
    desk = Desk({"a": 1}, connect=False, offline_grace=5.0)
    assert desk.ask("r1") == [("queued", "r1")]
    desk.now = 103.0
    desk.ask("r2")
    assert desk.admission.next_wakeup() == 105.0
    desk.now = 105.0
    (expired,) = desk.do("tick")
    assert (expired.request_id, _code(expired)) == ("r1", "no_provider_available")
    assert "queue.offline_grace" in str(expired.error)
    happened = terse(desk.do("node_connected", "n-a", 1))
    assert happened == [("node", "n-a"), ("provider", "a"), ("granted", "r2", "a")]


@pytest.mark.parametrize("how", ["lost", "down"])
def test_the_grace_runs_only_while_every_candidate_is_gone(how: str) -> None:
    """It begins with the loss of the last candidate and stops when one comes back."""
    desk = Desk({"a": 1, "b": 1}, offline_grace=5.0, max_wait=1000.0)
    desk.ask("r1", "r2", "w1")
    desk.now = 110.0
    desk.do("node_lost", "n-a", 1)
    assert desk.admission.next_wakeup() == 1100.0
    desk.now = 120.0
    if how == "lost":
        desk.do("node_lost", "n-b", 1)
    else:
        desk.do("provider_health", "b", False, "HTTP 500")
    assert desk.admission.next_wakeup() == 125.0
    desk.now = 124.0
    desk.do("provider_health", "b", True, None) if how == "down" else desk.do("node_connected", "n-a", 2)
    assert desk.admission.next_wakeup() in {None, 1100.0}


def test_a_draining_candidate_counts_as_coming_back() -> None:
    """Nobody's grace runs while a candidate drains, even when its node restarts meanwhile."""
    desk = Desk({"a": 1}, offline_grace=5.0, max_wait=1000.0)
    desk.do("drain", "n-a", 200.0, "upgrade")
    desk.ask("r1")
    desk.do("node_lost", "n-a", 1)
    assert desk.admission.next_wakeup() == 200.0
    desk.now = 200.0
    desk.do("tick")
    assert desk.admission.next_wakeup() == 205.0


def test_a_returned_request_has_a_grace_of_its_own() -> None:
    """The time it ran is not counted: its last candidate was lost when its provider failed it."""
    desk = Desk({"a": 1, "b": 1}, offline_grace=5.0, max_wait=1000.0)
    desk.do("node_lost", "n-b", 1)
    desk.ask("r1")
    desk.now = 150.0
    assert terse(desk.do("give_back", desk.lease_of("r1"), "reset")) == [("returned", "r1", "a")]
    assert desk.admission.next_wakeup() == 155.0


def test_a_drain_outlives_the_restart_and_ends_by_undrain_or_expiry() -> None:
    """The lease belongs to the node: no grants through loss and return of its link, all waiters at its end."""
    desk = Desk({"a": 2})
    drained = desk.do("drain", "n-a", 160.0, "upgrade")
    assert [effect.reason for effect in drained] == ["draining: upgrade"] * 2
    desk.ask("r1", "r2")
    desk.do("node_lost", "n-a", 1)
    desk.do("node_connected", "n-a", 2)
    assert (desk.node("n-a").state, desk.node("n-a").connected) == (NodeState.DRAINING, True)
    assert desk.provider("a").state is ProviderState.DRAINING
    assert desk.admission.next_wakeup() == 160.0
    desk.now = 160.0
    assert terse(desk.do("tick"))[-2:] == [("granted", "r1", "a"), ("granted", "r2", "a")]
    desk.do("drain", "n-a", 300.0, None)
    desk.ask("r3")
    desk.end("r1")
    assert desk.provider("a").queued == 1
    assert terse(desk.do("undrain", "n-a")) == [("node", "n-a"), ("provider", "a"), ("granted", "r3", "a")]
    assert desk.do("undrain", "n-a") == desk.do("undrain", "unknown") == ()


def test_a_node_that_is_stopping_drains_until_its_link_is_gone() -> None:
    """It is shown as draining, gets nothing new, runs no grace; undrain does not help, its next link does."""
    desk = Desk({"a": 2}, offline_grace=5.0)
    assert desk.do("node_stopping", "unknown") == ()
    desk.ask("r1")
    assert [effect.reason for effect in desk.do("node_stopping", "n-a")] == ["draining: stopping"] * 2
    assert (desk.node("n-a").state, desk.provider("a").reason) == (NodeState.DRAINING, "stopping")
    assert desk.do("undrain", "n-a") == desk.do("node_stopping", "n-a") == ()
    desk.ask("r2")
    desk.now += 6.0
    assert desk.do("tick") == ()
    desk.end("r1")
    desk.do("node_lost", "n-a", 1)
    assert (desk.node("n-a").state, desk.provider("a").reason) == (NodeState.OFFLINE, "link lost")
    assert desk.do("node_stopping", "n-a") == ()
    assert ("granted", "r2", "a") in terse(desk.do("node_connected", "n-a", 2))


def test_a_node_that_comes_back_over_its_old_link_stops_no_more() -> None:
    """The word was said on the old link; the new one knows nothing of it."""
    desk = Desk({"a": 1})
    desk.do("node_stopping", "n-a")
    desk.do("node_connected", "n-a", 2)
    assert desk.provider("a").state is ProviderState.READY


def test_a_node_without_providers_can_be_linked_and_drained() -> None:
    """A node with CLI agents only has a state of its own."""
    desk = Desk({"a": 1})
    assert terse(desk.do("node_connected", "cli-only", 1)) == [("node", "cli-only")]
    desk.do("drain", "cli-only", 200.0, "upgrade")
    assert (desk.node("cli-only").state, desk.node("cli-only").drain_until) == (NodeState.DRAINING, 200.0)


def test_state_changes_are_told_once_with_their_reason() -> None:
    """A probe that repeats what is known makes no effect; each change makes one, with the state and its reason."""
    desk = Desk({"a": 1})
    down = desk.do("provider_health", "a", False, "HTTP 500")
    assert _reasons(down, EffectType.PROVIDER) == ["down: HTTP 500"]
    assert desk.do("provider_health", "a", False, "HTTP 500") == ()
    lost = desk.do("node_lost", "n-a", 1)
    assert [effect.reason for effect in lost] == ["offline: link lost"] * 2
    back = desk.do("node_connected", "n-a", 2)
    assert [effect.reason for effect in back] == ["connected", "down: HTTP 500"]
    assert _reasons(desk.do("provider_health", "a", True, None), EffectType.PROVIDER) == ["ready"]
    assert desk.do("provider_health", "unknown", True, None) == ()


def test_a_lost_link_leaves_its_leases_to_the_shell() -> None:
    """Slots stay held until each is settled; then the request goes elsewhere and the lost provider gets nothing."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", "r2", "r3")
    desk.do("node_lost", "n-a", 1)
    assert desk.provider("a").in_flight == 1
    assert terse(desk.do("give_back", desk.lease_of("r1"), "link_lost")) == [("returned", "r1", "a")]
    assert desk.end("r2")[-1] == ("granted", "r1", "b")
    assert desk.snapshot().anomalies.stale_release == 0


def test_a_late_loss_or_hello_of_an_older_link_changes_nothing() -> None:
    """The close of an old link touches nothing of the new one; an epoch that does not grow is ignored."""
    desk = Desk({"a": 1})
    desk.do("node_connected", "n-a", 5)
    desk.ask("r1", "w1")
    before = desk.snapshot()
    assert desk.do("node_lost", "n-a", 1) == desk.do("node_connected", "n-a", 5) == ()
    assert desk.do("node_lost", "unknown", 1) == ()
    assert desk.snapshot() == before


def test_a_release_from_an_older_link_is_stale() -> None:
    """Field case B06: it changes nothing and is counted apart from a double release on the link of now."""
    desk = Desk({"a": 1})
    desk.ask("r1", "r2")
    old = desk.lease_of("r1")
    desk.do("end", old, Outcome.COMPLETED)
    desk.do("node_lost", "n-a", 1)
    desk.do("end", desk.lease_of("r2"), Outcome.FAILED)
    desk.do("node_connected", "n-a", 2)
    desk.ask("r3")
    assert desk.do("end", old, Outcome.COMPLETED) == ()
    assert desk.admission.load() == Load(1, 1, 0)
    anomalies = desk.snapshot().anomalies
    assert (anomalies.double_release, anomalies.stale_release) == (0, 1)


def test_work_found_running_is_held_whatever_the_capacity() -> None:
    """Adopted work fills slots before any waiter gets one, shows as debt, and is cancelled when its end comes."""
    desk = Desk({"a": 1}, connect=False)
    desk.ask("w1")
    desk.do("configure", pool_of({"a": 1, "elsewhere": 1}, {"m": ("a",)}))
    running = [("a", "old1"), ("a", "old2"), ("unknown", "old3"), ("elsewhere", "old4")]
    happened = desk.do("node_connected", "n-a", 1, running)
    assert terse(happened) == [("node", "n-a"), ("provider", "a"), ("adopted", "old1", "a"), ("adopted", "old2", "a")]
    assert (desk.provider("a").in_flight, desk.provider("a").over_by) == (2, 1)
    assert (desk.provider("elsewhere").in_flight, desk.provider("elsewhere").over_by) == (0, 0)
    (ended,) = desk.do("end", desk.lease_of("old1"), Outcome.COMPLETED)
    assert (ended.outcome, desk.provider("a").over_by) == (Outcome.CANCELLED, 0)
    assert desk.end("old2") == [("ended", "old2", "a"), ("granted", "w1", "a")]
    totals = desk.snapshot().totals
    assert (totals.adopted, totals.cancelled, totals.received, totals.admitted) == (2, 2, 1, 1)


def test_adopted_work_fails_with_its_link_and_is_never_returned() -> None:
    """It has no client: a lost link ends it as failed, and so does a give-back."""
    desk = Desk({"a": 2}, connect=False)
    desk.do("node_connected", "n-a", 1, [("a", "old1"), ("a", "old2")])
    (back,) = desk.do("give_back", desk.lease_of("old1"), "reset")
    assert (back.type, back.outcome) == (EffectType.ENDED, Outcome.FAILED)
    lost = desk.do("node_lost", "n-a", 1)
    assert [(e.request_id, e.outcome) for e in lost if e.type is EffectType.ENDED] == [("old2", Outcome.FAILED)]
    assert (desk.snapshot().totals.returned, desk.snapshot().totals.failed) == (0, 2)


def test_the_same_work_is_not_counted_twice() -> None:
    """A request in line again and its old work found running are two things: one waits, one is held."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", "r2")
    desk.do("node_lost", "n-a", 1)
    desk.do("give_back", desk.lease_of("r1"), "link_lost")
    desk.do("node_connected", "n-a", 2, [("a", "r1")])
    assert desk.admission.load() == Load(2, 2, 1)
    assert terse(desk.do("abandon", "r1")) == [("abandoned", "r1")]
    assert desk.provider("a").in_flight == 1


def test_a_new_link_ends_what_the_shell_never_settled() -> None:
    """A slot cannot leak through a forgotten lease: the next hello ends it as failed with an error for its client."""
    desk = Desk({"a": 1})
    desk.ask("r1", "r2")
    lease = desk.lease_of("r1")
    happened = desk.do("node_connected", "n-a", 2)
    assert terse(happened) == [("ended", "r1", "a"), ("granted", "r2", "a")]
    assert (happened[0].outcome, _code(happened[0])) == (Outcome.FAILED, "upstream_unreachable")
    desk.do("end", lease, Outcome.COMPLETED)
    assert desk.snapshot().anomalies.stale_release == 1


def test_a_nodes_state_is_told_without_a_picture_of_all() -> None:
    """Draining, offline or connected; None for a node that was never heard of."""
    desk = Desk({"a": 1})
    assert desk.admission.node_state("n-a") is NodeState.CONNECTED
    desk.do("drain", "n-a", 500.0, None)
    assert desk.admission.node_state("n-a") is NodeState.DRAINING
    desk.do("undrain", "n-a")
    desk.do("node_lost", "n-a", 1)
    assert desk.admission.node_state("n-a") is NodeState.OFFLINE
    assert desk.admission.node_state("unknown") is None


def _moved(*, adopted: bool) -> Admission:
    """Provider p has one slot, which is held through n1; a refresh has given p to n2, and r2 waits for it."""
    admission = Admission()
    admission.configure(_one_provider_on("n1"), 0.0)
    admission.node_connected("n1", 1, 0.0, [("p", "old")] if adopted else [])
    admission.node_connected("n2", 1, 0.0)
    admission.provider_health("p", True, None, 0.0)
    if not adopted:
        admission.ask(Ask("r1", "m"), 1.0)
    admission.ask(Ask("r2", "m"), 1.0)
    admission.configure(_one_provider_on("n2"), 2.0)
    return admission


def _one_provider_on(node: str) -> PoolSpec:
    return PoolSpec((ProviderSpec("p", node, 1),), {"m": ("p",)}, LineBounds(9, 60, 60))


def test_the_slot_of_a_provider_that_moved_is_handed_on_when_its_old_node_is_lost() -> None:
    """Adopted work ends with the old node's link; the slot it held belongs to the new node's provider, and is free."""
    effects = _moved(adopted=True).node_lost("n1", 1, 3.0)
    assert [effect.request_id for effect in effects if effect.type is EffectType.GRANTED] == ["r2"]


def test_the_slot_of_a_provider_that_moved_is_handed_on_when_its_old_node_comes_anew() -> None:
    """What was held through the older link ends as failed; who waits gets the slot on the new node."""
    effects = _moved(adopted=False).node_connected("n1", 2, 3.0)
    granted = [effect.lease for effect in effects if effect.type is EffectType.GRANTED]
    assert [(lease.request_id, lease.node_id) for lease in granted if lease is not None] == [("r2", "n2")]
