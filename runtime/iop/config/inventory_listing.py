"""From what `ansible-inventory --list` prints to the plain values of an environment, before they are checked."""

import json
from collections.abc import Mapping
from typing import Any

from iop.config.inventory_hosts import HOST_FILE

PORT_BASE_VARIABLE = "IOP_PORT_BASE"
#: the host's variables that say how it is reached -> their names in the model
CONNECTION = {
    "address": "address",
    "reached_by": "reached_by",
    "user": "user",
    "ssh_port": "ssh_port",
    "python": "python",
    "host_root": "root",
    "service_user": "service_user",
    "edge_address": "edge_address",
    "ssh_config": "ssh_config",
}
#: what the whole environment may say
OPTIONAL = ("smoke_api_key_file", "smoke_disruptive", "keep_releases", "simulator_tokens_per_second", "drain_wait")


class InventoryError(Exception):
    """The inventory cannot be used; the text names the file and line where it is known."""


def values(listing: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The fields of `Inventory` but `root`; ports are counted from their base.

    A value of the wrong type is left for the model to refuse. Raises `InventoryError` for one that is missing or no
    literal.
    """
    variables: dict[str, dict[str, Any]] = listing["_meta"]["hostvars"]
    names = _group(listing, "nodes")
    shared = variables.get(names[0], {})
    base = _port_base(shared, environ)
    found: dict[str, Any] = {
        "env": _literal(shared, "deploy_env"),
        "edge_id": _literal(shared, "edge_id"),
        "edge_host": _only(listing, "edge"),
        "control_host": _only(listing, "control_plane"),
        "builder": _only(listing, "builder"),
        "ports": _moved_ports(_literal(shared, "ports"), base),
        "hosts": [_host(name, variables.get(name, {}), base) for name in names],
        "models": _literal(shared, "models"),
        "smoke_model": _literal(shared, "smoke_model"),
        "engine_kind": _literal(shared, "engine_kind"),
    }
    found |= {name: _literal(shared, name) for name in OPTIONAL if name in shared}
    return found


def one_engine_kind(listing: Mapping[str, Any]) -> None:
    """Raises `InventoryError` where `engine_kind`, which may stand with each host, is not the same for all."""
    variables = listing["_meta"]["hostvars"]
    kinds = {name: _literal(variables[name], "engine_kind") for name in _group(listing, "nodes")}
    if len(set(kinds.values())) > 1:
        raise InventoryError(f"`engine_kind` must be the same for all hosts: {kinds}")


def _group(listing: Mapping[str, Any], group: str) -> list[str]:
    names: list[str] = listing.get(group, {}).get("hosts", [])
    if not names:
        raise InventoryError(f"the group `{group}` has no hosts")
    return names


def _only(listing: Mapping[str, Any], group: str) -> str:
    first, *more = _group(listing, group)
    if more:
        raise InventoryError(f"the group `{group}` has {first} and {', '.join(more)}: it takes one host")
    return first


def _host(name: str, variables: Mapping[str, Any], base: int) -> dict[str, Any]:
    def own(key: str) -> Any:  # noqa: ANN401 - any JSON value, checked by the model
        return _literal(variables, key, f"{name} lacks `{key}`, which belongs into {HOST_FILE.format(host=name)}")

    found = {
        "name": name,
        "node_id": own("node_id"),
        "alias": own("node_alias"),
        "platform": own("node_platform"),
        "arch": own("node_arch"),
        "service_manager": own("service_manager"),
    }
    if "cli_targets" in variables:
        found["cli_targets"] = own("cli_targets")
    if "providers" in variables:
        found["providers"] = _moved_engines(own("providers"), base)
    return found | {field: own(spelt) for spelt, field in CONNECTION.items() if spelt in variables}


def _port_base(shared: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """What is added to each port: 0 for environments with fixed ports, else `port_base` or IOP_PORT_BASE."""
    if "port_base" not in shared:
        return 0
    text = environ.get(PORT_BASE_VARIABLE) or str(_literal(shared, "port_base"))
    if not text.isdecimal() or not 1024 <= int(text) <= 65000:
        raise InventoryError(f"{PORT_BASE_VARIABLE} must be a number from 1024 to 65000, not {text!r}")
    return int(text)


def _moved_ports(ports: object, base: int) -> object:
    return {name: _moved(port, base) for name, port in ports.items()} if isinstance(ports, dict) else ports


def _moved_engines(providers: object, base: int) -> object:
    if not isinstance(providers, list):
        return providers
    return [
        {**one, "engine_port": _moved(one["engine_port"], base)}
        if isinstance(one, dict) and "engine_port" in one
        else one
        for one in providers
    ]


def _moved(port: object, base: int) -> object:
    """The port counted from `base`."""
    return port + base if isinstance(port, int) and not isinstance(port, bool) else port


def _literal(variables: Mapping[str, Any], name: str, lacking: str = "") -> Any:  # noqa: ANN401 - as above
    """A shared value. Raises `InventoryError` when it is missing, a template or a vault blob."""
    if name not in variables:
        raise InventoryError(lacking or f"the inventory lacks `{name}`")
    text = json.dumps(variables[name])
    if "{{" in text or "__ansible_vault" in text:
        raise InventoryError(f"`{name}` must be a literal: fab and smoke read it without Ansible's templates and vault")
    return variables[name]
