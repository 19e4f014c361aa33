"""Facts of a remote environment in which everything serves, for tests to break."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from iop.ops.facts import Facts, HostFacts
from tests.fakes.remote_inventory import remote

RELEASE = "0.1.0-1-gabc-123"


def well(checkout: Path = Path("/checkout"), **changes: Any) -> Facts:
    """Three hosts, three nodes, nine slots; `changes` go to the inventory's hosts."""
    inventory = remote(checkout, **changes)
    codex = {"name": "codex", "kind": "codex", "ready": True, "reason": None}
    hosts = tuple(
        HostFacts(
            host,
            current=RELEASE,
            services=({"name": f"{host.name}.node", "state": "running", "pid": 7, "release": RELEASE, "port": None},),
        )
        for host in inventory.hosts
    )
    nodes = [
        {
            "id": host.node_id, "connected": True, "state": "connected", "release_id": RELEASE,
            "adapters": [{"name": "cli", "targets": [codex]}],
        }
        for host in inventory.hosts
    ]  # fmt: skip
    providers = [
        {
            "provider_id": one.id, "node_id": host.node_id, "state": "ready", "reason": None, "capacity": 3,
            "in_flight": 0, "queued": 0,
        }
        for host in inventory.hosts
        for one in host.providers
    ]  # fmt: skip
    edge = {
        "edge": {"id": "edge-lab", "release_id": RELEASE},
        "config": {"generation": 1},
        "totals": {"capacity": 9, "in_flight": 0, "queued": 0},
        "nodes": nodes,
        "provider_snapshots": providers,
        "turned_away": [],
    }
    return Facts(inventory, edge, "", "", hosts)


def with_host(facts: Facts, name: str, **changes: Any) -> Facts:
    """The same with one host's facts changed."""
    return replace(facts, hosts=tuple(replace(one, **changes) if one.host.name == name else one for one in facts.hosts))
