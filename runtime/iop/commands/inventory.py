"""`python -m iop.commands.inventory TARGET`: an environment as JSON, for Ansible's derived variables.

Not one of the four public commands: playbooks call it so that they and everyone else read the inventory the same way.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iop.config.inventory import Inventory, InventoryError, load_inventory
from iop.config.inventory_engines import KINDS
from iop.config.inventory_hosts import listen_for_nodes
from iop.config.inventory_picture import operator_yaml


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the environment; 1 when its inventory cannot be used."""
    parser = argparse.ArgumentParser(prog="iop.commands.inventory", description="An environment as JSON.")
    parser.add_argument("target", help="dev, local, …: a folder below inventory/")
    parser.add_argument("--root", type=Path, default=None, help="the checkout (default: around the working directory)")
    parser.add_argument("--operator", action="store_true", help="print the YAML of agent-test/TARGET/inventory.yaml")
    parser.add_argument("--engine-kind", choices=KINDS, default=None, help="what a deploy puts behind the providers")
    options = parser.parse_args(arguments)
    try:
        found = load_inventory(options.target, options.root, options.engine_kind)
    except InventoryError as error:
        print(error, file=sys.stderr)
        return 1
    print(operator_yaml(found).rstrip("\n") if options.operator else json.dumps(derived(found), indent=2))
    return 0


def derived(inventory: Inventory) -> dict[str, Any]:
    """The inventory with everything that is computed from it."""
    data = inventory.model_dump(mode="json")
    for name in ("kind", "openai_url", "admin_url", "control_url", "capacity", "banner"):
        data[name] = getattr(inventory, name)
    data |= {"home": str(inventory.home), "edge_home": str(inventory.edge_home)}
    data["nodes_listen"] = listen_for_nodes(inventory.hosts, inventory.edge_host)
    for host, plain in zip(inventory.hosts, data["hosts"], strict=True):
        config = inventory.ssh_config(host.name)
        plain |= {
            "remote": host.remote,
            "here": host.here,
            "root": str(inventory.host_root(host.name)),
            "nodes_addr": inventory.nodes_addr(host.name),
            "service_user": inventory.service_user(host.name),
            "ssh_config": str(config) if config else None,
        }
        for provider, fields in zip(host.providers, plain["providers"], strict=True):
            fields["endpoint"] = provider.endpoint
    return data


if __name__ == "__main__":
    sys.exit(main())
