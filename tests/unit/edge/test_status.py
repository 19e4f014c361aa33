"""The status JSON, to the letter."""

from dataclasses import replace

import msgspec
import pytest

from iop.config.load import read_edge
from iop.domain.snapshots import (
    Anomalies,
    ModelSnapshot,
    NodeSnapshot,
    NodeState,
    PoolSnapshot,
    ProviderSnapshot,
    ProviderState,
    Totals,
)
from iop.edge.registry import TurnedAwayEntry
from iop.edge.status import ConfigFacts, EdgeFacts, LinkFacts, Retired, StatusFacts, build_status
from iop.link.messages import AdapterInfo, TargetInfo

TEXT = """
edge: {id: edge-test}
nodes:
  - id: n1
    alias: first
    adapters:
      cli: {enabled: true, targets: {echo: {kind: text, command: [python3, /abs/agent.py]}}}
      openai_compat_instances:
        - {name: e1, enabled: true, provider: other, endpoint: "http://127.0.0.1:8002/v1", capacity: 5}
        - {name: e2, enabled: true, provider: other, endpoint: "http://127.0.0.1:8003/v1"}
        - {name: e3, enabled: false, provider: other, endpoint: "http://127.0.0.1:8004/v1"}
    providers:
      - {id: p1, type: other, category: local_inference, adapter: e1, capacity: 3}
      - {id: p2, type: other, category: local_inference, adapter: e2, capacity: 2}
  - id: n2
models:
  - {id: m, providers: {p1: engine-model, p2: engine-model}}
  - {id: m2, providers: {p1: other-model}}
  - {id: agent, direct: {node: n1, adapter: cli, target: echo}}
"""
STATUS = {
    "schema", "edge", "config", "totals", "nodes", "provider_snapshots", "models", "anomalies", "turned_away",
    "observed_at", "events",
}  # fmt: skip
EDGE = {"id", "version", "release_id", "instance_id", "started_at", "counting_since"}
CONFIG = {"generation", "sha256", "source", "applied_at", "last_error"}
TOTALS = {
    "capacity", "in_flight", "queued", "received", "refused", "expired", "abandoned", "admitted", "adopted",
    "returned", "completed", "failed", "cancelled",
}  # fmt: skip
NODE = {
    "id", "alias", "connected", "state", "since", "version", "release_id", "instance_id", "adapters", "direct", "drain",
}  # fmt: skip
PROVIDER = {
    "provider_id", "node_id", "type", "category", "adapter", "models", "state", "reason", "capacity", "in_flight",
    "queued", "over_by", "oldest_in_flight_s", "admitted", "adopted", "returned", "completed", "failed", "cancelled",
}  # fmt: skip


class Direct:
    """Counters of direct work, as the direct route keeps them."""

    in_flight, completed, failed, cancelled = 1, 2, 3, 4


def provider(provider_id, state=ProviderState.READY, **more):
    """Make a snapshot of a provider of n1."""
    numbers = dict.fromkeys(
        ("in_flight", "queued", "over_by", "admitted", "adopted", "returned", "completed", "failed", "cancelled"), 0
    )
    facts = {"node_id": "n1", "reason": None, "capacity": 3, "oldest_in_flight_s": None} | numbers | more
    return ProviderSnapshot(provider_id=provider_id, state=state, **facts)


def pool(*providers, connected=True):
    """Make a pool's snapshot with n1 (connected or not) and n2 (offline)."""
    state = NodeState.CONNECTED if connected else NodeState.OFFLINE
    return PoolSnapshot(
        totals=Totals(capacity=5, in_flight=1, queued=2, received=3),
        providers=providers or (provider("p1", in_flight=1, oldest_in_flight_s=1.23456), provider("p2")),
        models=(ModelSnapshot("m", 2, 0.5),),
        nodes=(
            NodeSnapshot("n1", state, connected, None, None),
            NodeSnapshot("n2", NodeState.OFFLINE, connected=False, drain_until=None, drain_reason=None),
        ),
        anomalies=Anomalies(),
    )


def status(snapshot=None, **more):
    """Build a status of the test config."""
    config = read_edge(TEXT, source="/abs/edge.yaml").config
    assert config is not None
    return build_status(
        StatusFacts(
            edge=EdgeFacts("edge-test", "1.0", "r1", "i1", started_at=0.0, counting_since=1.0),
            config=config,
            config_facts=ConfigFacts(1, "ab", "/abs/edge.yaml", applied_at=2.0),
            pool=snapshot or pool(),
            observed_at=3.0,
            **more,
        )
    )


def test_every_key_of_the_interface_is_there():
    """Each object has exactly the interface's keys (and the feed's newest number), present even when null."""
    got = status()
    assert got["schema"] == 1
    assert set(got) == STATUS
    assert set(got["edge"]) == EDGE
    assert set(got["config"]) == CONFIG
    assert set(got["totals"]) == TOTALS
    assert all(set(node) == NODE for node in got["nodes"])
    assert all(set(entry) == PROVIDER for entry in got["provider_snapshots"])
    assert all(set(model) == {"id", "route", "queued", "oldest_wait_s"} for model in got["models"])
    assert set(got["anomalies"]) == {"double_release", "stale_release", "node_over_capacity"}
    assert set(got["nodes"][0]["direct"]) == {"in_flight", "completed", "failed", "cancelled"}
    msgspec.json.encode(got)


def test_times_are_iso_in_utc():
    """Every moment is ISO-8601 with Z."""
    got = status(links={"n1": LinkFacts(since=4.0)})
    assert got["edge"]["started_at"] == "1970-01-01T00:00:00.000Z"
    assert got["edge"]["counting_since"] == "1970-01-01T00:00:01.000Z"
    assert got["config"]["applied_at"] == "1970-01-01T00:00:02.000Z"
    assert got["observed_at"] == "1970-01-01T00:00:03.000Z"
    assert [node["since"] for node in got["nodes"]] == ["1970-01-01T00:00:04.000Z", None]


def test_adapters_come_from_the_config_with_their_limits():
    """CLI is 0 = unlimited; an engine has its own capacity, or its providers' sum; disabled ones are not there."""
    got = status(pool(connected=False))["nodes"][0]
    assert (got["state"], got["connected"]) == ("offline", False)
    echo = {"name": "echo", "kind": "text"}
    assert got["adapters"] == [
        {
            "name": "cli",
            "type": "cli",
            "max_concurrency": 0,
            "targets": [echo | {"ready": None, "reason": "the node is not connected"}],
        },
        {"name": "e1", "type": "openai_compat", "max_concurrency": 5, "targets": []},
        {"name": "e2", "type": "openai_compat", "max_concurrency": 2, "targets": []},
    ]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ((), {"ready": None, "reason": "the node has not reported it"}),
        (
            (TargetInfo(name="other", kind="text", ready=True),),
            {"ready": None, "reason": "the node has not reported it"},
        ),
        ((TargetInfo(name="echo", kind="text", ready=False, reason="why"),), {"ready": False, "reason": "why"}),
        ((TargetInfo(name="echo", kind="text", ready=True),), {"ready": True, "reason": None}),
    ],
)
def test_agents_are_declared_and_judged_by_their_node(told, expected):
    """Each declared target is listed once, with what its node says; a node of an earlier release says nothing."""
    reported = (AdapterInfo(name="cli", type="cli", max_concurrency=0, targets=told),)
    links = {"n1": LinkFacts(adapters=reported)}
    cli = status(links=links)["nodes"][0]["adapters"][0]
    assert cli["targets"] == [{"name": "echo", "kind": "text"} | expected]


def test_what_a_node_reports_beyond_the_config_is_told_once():
    """A reported adapter that is declared is not listed twice; an undeclared one is, while the node is connected."""
    reported = (
        AdapterInfo(name="e1", type="openai_compat", max_concurrency=99),
        AdapterInfo(name="old", type="cli", max_concurrency=0),
    )
    links = {"n1": LinkFacts(adapters=reported, version="1", release_id="r", instance_id="i")}
    names = [entry["name"] for entry in status(links=links)["nodes"][0]["adapters"]]
    assert names == ["cli", "e1", "e2", "old"]
    away = status(pool(connected=False), links=links)["nodes"][0]
    assert [entry["name"] for entry in away["adapters"]] == ["cli", "e1", "e2"]


def test_a_provider_is_described_by_the_config_and_counted_by_the_pool():
    """Type, category, adapter and models are declared; state and numbers are admission's."""
    first, second = status()["provider_snapshots"]
    assert (first["provider_id"], first["type"], first["category"], first["adapter"]) == (
        "p1", "other", "local_inference", "e1",
    )  # fmt: skip
    assert first["models"] == ["m", "m2"]
    assert second["models"] == ["m"]
    assert (first["state"], first["in_flight"], first["oldest_in_flight_s"]) == ("ready", 1, 1.235)


def test_a_drain_lease_tells_why_and_how_long_it_still_lives():
    """The time that is left counts by the lease's own clock, and is not below 0; no lease is null."""
    assert [node["drain"] for node in status()["nodes"]] == [None, None]

    lease = NodeSnapshot("n1", NodeState.DRAINING, connected=True, drain_until=100.0, drain_reason="disk (by ann)")
    drained = replace(pool(), nodes=(lease,))
    assert status(drained, now=70.04)["nodes"][0]["drain"] == {"reason": "disk (by ann)", "left_s": 30.0}
    assert status(drained, now=101.0)["nodes"][0]["drain"]["left_s"] == 0.0


def test_a_removed_provider_is_shown_until_it_is_drained():
    """It keeps its description, serves no model, and says `removing`."""
    snapshot = pool(provider("p1"), provider("gone", ProviderState.REMOVING, in_flight=1, over_by=1))
    gone = status(snapshot, retired={"gone": Retired("vllm", "local_inference", "e9")})["provider_snapshots"][1]
    assert (gone["state"], gone["type"], gone["adapter"], gone["models"]) == ("removing", "vllm", "e9", [])


def test_models_tell_route_and_line():
    """A pool model tells who waits; a direct one never has a line."""
    assert status()["models"] == [
        {"id": "m", "route": "pool", "queued": 2, "oldest_wait_s": 0.5},
        {"id": "m2", "route": "pool", "queued": 0, "oldest_wait_s": None},
        {"id": "agent", "route": "direct", "queued": 0, "oldest_wait_s": None},
    ]


def test_direct_work_and_refused_hellos_are_told():
    """Direct counters stand at their node; refused hellos name node, code, peer, last time and count."""
    got = status(
        direct={"n1": Direct()},
        turned_away=[TurnedAwayEntry(node_id="n9", code="unknown_node", peer="10.0.0.2", last_at=5.0, count=7)],
        last_seq=42,
    )
    assert got["nodes"][0]["direct"] == {"in_flight": 1, "completed": 2, "failed": 3, "cancelled": 4}
    assert got["nodes"][1]["direct"]["in_flight"] == 0
    assert got["turned_away"] == [
        {
            "node_id": "n9",
            "code": "unknown_node",
            "peer": "10.0.0.2",
            "last_at": "1970-01-01T00:00:05.000Z",
            "count": 7,
        }
    ]
    assert got["events"] == {"last_seq": 42}
