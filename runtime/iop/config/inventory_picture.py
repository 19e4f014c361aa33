"""An environment as the operators' documents show it: YAML without anything that differs from machine to machine."""

from typing import Any

import yaml

from iop.config.inventory import Inventory
from iop.config.inventory_hosts import Host

_HEAD = """\
# The {env} environment as operators see it. Generated from inventory/{env} by `make operator-inventory`: edit that.
# {picture}.
"""


def picture_line(inventory: Inventory) -> str:
    """The sentence that every operator document holds, with the numbers of this inventory."""
    both = [host.name for host in inventory.hosts if host.cli_targets and host.providers]
    mixed = "".join(f", the {name} node has CLI + MLX provider resource" for name in both)
    return f"{len(inventory.hosts)} connected nodes, {len(inventory.providers)} provider candidates{mixed}"


def operator_yaml(inventory: Inventory) -> str:
    """The text of `agent-test/<env>/inventory.yaml`. Paths, service managers and connections are left out."""
    tree = {
        "environment": inventory.env,
        "edge_id": inventory.edge_id,
        "ports": inventory.ports.model_dump(),
        "expected": {
            "connected_nodes": len(inventory.hosts),
            "provider_candidates": len(inventory.providers),
            "capacity": inventory.capacity,
            "burst": inventory.capacity + 1,
        },
        "smoke_model": inventory.smoke_model,
        "models": [model.model_dump(exclude_none=True) for model in inventory.models],
        "hosts": [_host(host) for host in sorted(inventory.hosts, key=lambda host: host.name)],
    }
    head = _HEAD.format(env=inventory.env, picture=picture_line(inventory))
    return head + yaml.safe_dump(tree, sort_keys=False, width=120)


def _host(host: Host) -> dict[str, Any]:
    providers = [
        {
            "id": provider.id,
            "type": provider.type,
            "category": provider.category,
            "capacity": provider.capacity,
            "on_disconnect": provider.on_disconnect,
            "endpoint": provider.endpoint,
        }
        for provider in host.providers
    ]
    return {
        "name": host.name,
        "node_id": host.node_id,
        "alias": host.alias,
        "platform": f"{host.platform}-{host.arch}",
        "cli_targets": sorted(host.cli_targets),
        "providers": providers,
    }
