"""The facts of an environment as plain data: what `fab status --json` and `fab doctor --json` print. Pure."""

from dataclasses import asdict
from typing import Any

from iop.ops.doctor import Finding, slots
from iop.ops.facts import Facts, HostFacts


def status(facts: Facts) -> dict[str, Any]:
    """Everything `fab status` shows. `well`: the Edge, every link, service and provider is as declared."""
    inventory, edge = facts.inventory, facts.edge
    providers = list(facts.providers.values())
    hosts = [_host(facts, host) for host in facts.hosts]
    return {
        "target": inventory.env,
        "kind": inventory.kind,
        "banner": inventory.banner,
        "well": bool(edge)
        and all(host["connected"] and host["trouble"] is None for host in hosts)
        and not any(host.down for host in facts.hosts)
        and len(providers) == len(inventory.providers)
        and all(one["state"] == "ready" for one in providers),
        "edge": {**edge["edge"], "url": inventory.openai_url} if edge else None,
        "trouble": facts.edge_trouble,
        "control_trouble": facts.control_trouble,
        "hosts": hosts,
        "providers": providers,
        "totals": edge.get("totals"),
        "config": edge.get("config"),
    }


def diagnosis(facts: Facts, findings: list[Finding]) -> dict[str, Any]:
    """What `fab doctor` found."""
    ready, declared = slots(facts)
    return {
        "target": facts.inventory.env,
        "kind": facts.inventory.kind,
        "banner": facts.inventory.banner,
        "well": not findings and ready == declared,
        "slots": {"ready": ready, "declared": declared},
        "findings": [asdict(one) for one in findings],
    }


def unusable(target: str, error: str) -> dict[str, Any]:
    """What `fab doctor` says of an environment whose inventory cannot be used: that one finding."""
    finding = Finding("inventory", f"inventory/{target}", error, f"correct it, then: fab doctor --target {target}")
    return {
        "target": target,
        "kind": None,
        "banner": "",
        "well": False,
        "slots": {"ready": 0, "declared": 0},
        "findings": [asdict(finding)],
    }


def _host(facts: Facts, host: HostFacts) -> dict[str, Any]:
    node = facts.nodes.get(host.host.node_id, {})
    return {
        "name": host.host.name,
        "node": host.host.node_id,
        "address": host.host.address,
        "connected": bool(node.get("connected")),
        "state": node.get("state", "unknown"),
        "trouble": host.trouble.message if host.trouble else None,
        "release": host.current,
        "previous": host.previous,
        "services": list(host.services),
    }
