"""Providers and nodes: states and the pick."""

import pytest

from iop.domain.fleet import Fleet, Node, Provider
from iop.domain.snapshots import NodeState, ProviderState


def _ready(name: str = "a", capacity: int = 2) -> Provider:
    return Provider(name, Node("n", connected=True, link_reason=None), capacity)


def test_the_first_state_that_holds_is_shown() -> None:
    """Provider: removing, draining, offline, down, suspect, ready, each with its reason, whatever holds below it."""
    provider = _ready()
    assert (provider.state, provider.reason_of(provider.state, 0.0)) == (ProviderState.READY, None)
    provider.silence.limit = 9.0
    suspect = "no byte and no end for 0s, full and with requests waiting"
    assert (provider.state, provider.reason_of(provider.state, 0.0)) == (ProviderState.SUSPECT, suspect)
    provider.up, provider.health_reason = False, "HTTP 500"
    assert (provider.state, provider.reason_of(provider.state, 0.0)) == (ProviderState.DOWN, "HTTP 500")
    provider.node.connected, provider.node.link_reason = False, "link lost"
    assert (provider.state, provider.reason_of(provider.state, 0.0)) == (ProviderState.OFFLINE, "link lost")
    provider.node.drain_until, provider.node.drain_reason = 9.0, "upgrade"
    assert (provider.state, provider.reason_of(provider.state, 0.0)) == (ProviderState.DRAINING, "upgrade")
    provider.removing = True
    assert provider.state is ProviderState.REMOVING


def test_a_draining_node_is_shown_so_whether_linked_or_not() -> None:
    """Node: draining, offline, connected."""
    node = Node("n")
    assert (node.state, node.reason) == (NodeState.OFFLINE, "not connected yet")
    node.connected, node.link_reason = True, None
    assert (node.state, node.reason) == (NodeState.CONNECTED, None)
    node.drain_until, node.drain_reason = 9.0, "upgrade"
    node.connected = False
    assert (node.state, node.reason) == (NodeState.DRAINING, "upgrade")


def test_a_provider_takes_work_when_ready_with_a_free_slot() -> None:
    """Full, over capacity, busy, draining, down and offline providers take none; a check ignores the drain only."""
    provider = _ready(capacity=1)
    assert provider.takes_work(drain_ignored=False)
    provider.leases[1] = 0.0
    assert not provider.takes_work(drain_ignored=False)
    provider.leases.clear()
    provider.busy = True
    assert not provider.takes_work(drain_ignored=True)
    provider.busy = False
    provider.node.drain_until = 9.0
    assert not provider.takes_work(drain_ignored=False)
    assert provider.takes_work(drain_ignored=True)
    provider.silence.limit = 9.0
    assert not provider.takes_work(drain_ignored=True)
    provider.silence.limit = None
    provider.up = False
    assert not provider.takes_work(drain_ignored=True)


def test_gone_means_offline_or_down_and_draining_or_suspect_counts_as_coming_back() -> None:
    """The grace of a waiter runs for offline and down only; a check looks through the drain."""
    provider = _ready()
    assert not provider.is_gone(drain_ignored=False)
    provider.silence.limit = 9.0
    assert not provider.is_gone(drain_ignored=False)
    provider.node.connected = False
    assert provider.is_gone(drain_ignored=False)
    provider.node.drain_until = 9.0
    assert not provider.is_gone(drain_ignored=False)
    assert provider.is_gone(drain_ignored=True)


@pytest.mark.parametrize(
    ("loads", "chosen"),
    [
        ([(1, 2), (1, 3)], "b"),  # lowest share
        ([(0, 1), (0, 4), (0, 3)], "b"),  # same share: more free slots
        ([(1, 3), (2, 6)], "b"),  # 1/3 = 2/6: more free slots
        ([(2, 4), (1, 3), (0, 1)], "c"),
    ],
)
def test_the_pick_is_the_lowest_share_then_more_free_slots(loads: list[tuple[int, int]], chosen: str) -> None:
    """Lowest in-flight / capacity wins, then more free slots."""
    candidates = [_ready(name, capacity) for name, (_, capacity) in zip("abc", loads, strict=False)]
    for provider, (held, _) in zip(candidates, loads, strict=True):
        provider.leases.update(dict.fromkeys(range(held), 0.0))
    assert Fleet().pick(candidates).id == chosen


def test_equals_are_picked_in_turn() -> None:
    """Round robin among providers of the same load."""
    fleet, candidates = Fleet(), [_ready("a"), _ready("b"), _ready("c")]
    assert "".join(fleet.pick(candidates).id for _ in range(7)) == "abcabca"


def test_declared_providers_only() -> None:
    """Unknown and removed providers are no candidates, a name given twice counts once, capacity sums the declared."""
    fleet = Fleet()
    fleet.providers = {"a": _ready("a", 2), "b": _ready("b", 3)}
    fleet.providers["b"].removing = True
    assert [provider.id for provider in fleet.declared(("b", "a", "x", "a"))] == ["a"]
    fleet.recount()
    assert fleet.capacity == 2


def test_nodes_in_use_have_a_provider_a_link_or_a_drain() -> None:
    """A node that carries nothing is not shown, but its record (with the link's epoch) stays."""
    fleet = Fleet()
    node = fleet.node("n")
    node.epoch = 4
    assert fleet.nodes_in_use() == []
    node.drain_until = 3.0
    assert fleet.nodes_in_use() == [node]
    node.drain_until, node.connected = None, True
    assert fleet.nodes_in_use() == [node]
    assert fleet.node("n").epoch == 4


def test_silence_counts_from_the_grant_that_ends_an_idle_time() -> None:
    """Time without work is no silence; a further grant is none of its own sign of life."""
    provider = _ready()
    provider.take(1, 50.0, streams=False)
    provider.take(2, 60.0, streams=True)
    assert (provider.silence.heard_at, provider.silence.streams) == (50.0, {2: 60.0})
    provider.busy = True
    provider.free(1, 70.0)
    assert (provider.in_flight, provider.busy, provider.silence.heard_at) == (1, False, 70.0)
    provider.free(2, 80.0)
    provider.take(3, 500.0, streams=False)
    assert (provider.silence.heard_at, provider.silence.streams) == (500.0, {})
