"""The operators' picture of an environment: from the inventory alone, the same on every machine."""

from pathlib import Path

import yaml

from iop.config.inventory import Inventory
from iop.config.inventory_picture import operator_yaml, picture_line

PROVIDER = {"id": "p1", "type": "other", "category": "local_inference", "capacity": 2, "engine_port": 8002}


def inventory(root="/anywhere", **changes):
    """A small environment: one host with agent and provider, one with a provider."""
    host = {
        "name": "h1",
        "node_id": "n1",
        "alias": "a1",
        "platform": "linux",
        "arch": "arm64",
        "service_manager": "supervisor",
    }
    both = {**host, "cli_targets": {"codex": {"kind": "text", "command": ["/bin/agent"]}}, "providers": [PROVIDER]}
    second = {**host, "name": "a2", "node_id": "n2", "providers": [{**PROVIDER, "id": "p2", "capacity": 5}]}
    facts = {
        "env": "dev",
        "edge_host": "h1",
        "control_host": "h1",
        "builder": "h1",
        "root": Path(root),
        "edge_id": "e",
        "ports": {"control": 1, "openai": 2, "nodes": 3, "admin": 4},
        "hosts": [both, second],
        "models": [{"id": "m", "providers": {"p1": "x", "p2": "y"}}],
        "smoke_model": "m",
        "engine_kind": "simulator",
    }
    return Inventory.model_validate(facts | changes)


def test_the_line_counts_nodes_and_providers():
    """The sentence has the inventory's numbers and names the host with both kinds of resource."""
    line = picture_line(inventory())
    assert line == "2 connected nodes, 2 provider candidates, the h1 node has CLI + MLX provider resource"


def test_the_yaml_tells_what_a_gate_expects():
    """Numbers that runbooks compare with are computed, hosts are sorted by name."""
    tree = yaml.safe_load(operator_yaml(inventory()))
    assert tree["expected"] == {"connected_nodes": 2, "provider_candidates": 2, "capacity": 7, "burst": 8}
    assert [host["name"] for host in tree["hosts"]] == ["a2", "h1"]
    assert tree["hosts"][1]["cli_targets"] == ["codex"]
    assert tree["hosts"][0]["providers"][0]["endpoint"] == "http://127.0.0.1:8002/v1"


def test_nothing_of_one_machine_is_in_it():
    """Checkout, commands and service managers differ from machine to machine and are left out."""
    assert operator_yaml(inventory("/here")) == operator_yaml(inventory("/there"))
    text = operator_yaml(inventory())
    assert not any(word in text for word in ("anywhere", "service_manager", "/bin/agent"))


def test_the_head_says_where_it_comes_from():
    """The file names its source and its picture in comments, which YAML skips."""
    head = operator_yaml(inventory()).splitlines()[:2]
    assert "Generated from inventory/dev" in head[0]
    assert head[1] == f"# {picture_line(inventory())}."
