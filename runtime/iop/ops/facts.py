"""What is known of an environment now: by HTTP from Edge and Control Plane, from each host what only it knows.

Hosts are asked side by side; one that does not answer costs its own patience and nothing else.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from iop.admin.client import AdminClient, AdminRefused, AdminUnreachable, ControlClient
from iop.admin.forwards import Forwards
from iop.admin.ssh_trouble import SshTrouble
from iop.config.inventory import Inventory
from iop.config.inventory_hosts import LOOPBACK, Host, listen_for_nodes
from iop.ops.helper import Helper, Told
from iop.ops.logs import tail

#: seconds for one answer of the Edge or the Control Plane
ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One host: what its helper tells, or why it could not be asked."""

    host: Host
    trouble: SshTrouble | None = None
    clock_off_s: float = 0.0
    current: str | None = None
    previous: str | None = None
    services: tuple[dict[str, Any], ...] = ()
    obstacles: tuple[dict[str, Any], ...] = ()  # what is in the way there {code, message, hint}; all in a deep look
    tails: dict[str, str] = field(default_factory=dict)  # service -> end of its log; of those that do not run, deep

    @property
    def down(self) -> tuple[dict[str, Any], ...]:
        """The services that do not run as they should."""
        return tuple(one for one in self.services if one["state"] != "running")


@dataclass(frozen=True, slots=True)
class Facts:
    """An environment. `edge` is the Edge's status JSON, empty with a reason in `edge_trouble`."""

    inventory: Inventory
    edge: dict[str, Any]
    edge_trouble: str
    control_trouble: str  # empty when the Control Plane answers and reaches the Edge
    hosts: tuple[HostFacts, ...]
    forward_trouble: SshTrouble | None = None  # no way to the Edge's host

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        """The Edge's nodes by id."""
        return {node["id"]: node for node in self.edge.get("nodes", ())}

    @property
    def providers(self) -> dict[str, dict[str, Any]]:
        """The Edge's providers by id."""
        return {one["provider_id"]: one for one in self.edge.get("provider_snapshots", ())}


def gather(inventory: Inventory, forwards: Forwards, *, deep: bool = False) -> Facts:
    """Ask everyone. `deep` also looks for what stands in the way on each host. Raises nothing."""
    with ThreadPoolExecutor(len(inventory.hosts) + 1) as pool:
        asked = [pool.submit(_host, inventory, host, deep=deep) for host in inventory.hosts]
        edge, edge_trouble, control_trouble, forward_trouble = pool.submit(_answers, inventory, forwards).result()
        hosts = tuple(one.result() for one in asked)
    return Facts(inventory, edge, edge_trouble, control_trouble, hosts, forward_trouble)


def _answers(inventory: Inventory, forwards: Forwards) -> tuple[dict[str, Any], str, str, SshTrouble | None]:
    try:
        urls = forwards.open()
    except SshTrouble as error:
        return {}, error.message, error.message, error
    edge, edge_trouble = {}, ""
    with AdminClient(urls.admin, timeout=ANSWER_S) as admin:
        try:
            edge = admin.status()
        except (AdminUnreachable, AdminRefused) as error:
            edge_trouble = forwards.explain("admin", error)
    control_trouble = ""
    with ControlClient(urls.control, timeout=ANSWER_S) as control:
        try:
            seen = {one["id"]: one for one in control.edges()}
            if not seen.get(inventory.edge_id, {}).get("reachable"):
                control_trouble = f"the Control Plane does not reach {inventory.edge_id}"
        except (AdminUnreachable, AdminRefused) as error:
            control_trouble = forwards.explain("control", error)
    return edge, edge_trouble, control_trouble, None


def _host(inventory: Inventory, host: Host, *, deep: bool) -> HostFacts:
    helper = Helper(inventory, host.name)
    try:
        found = _of(inventory, host, helper.status())
        if not deep:
            return found
        more = helper.preflight(wanted_ports(inventory, host, found)).data.get("findings", [])
        tails = {one["name"]: _tail(inventory, host.name, one["name"]) for one in found.down}
    except SshTrouble as error:
        return HostFacts(host, error)
    return replace(found, obstacles=(*more, *found.obstacles), tails=tails)


def _of(inventory: Inventory, host: Host, told: Told) -> HostFacts:
    data, obstacles = told.data, "; ".join(told.data.get("obstacles", ()))
    bootstrap = f"ansible-playbook -i inventory/{inventory.env} playbooks/bootstrap.yml"
    return HostFacts(
        host,
        None,
        told.clock_off_s,
        data.get("current"),
        data.get("previous"),
        tuple(data.get("services", ())),
        ({"code": "definitions", "message": obstacles, "hint": bootstrap},) if obstacles else (),
    )


def wanted_ports(inventory: Inventory, host: Host, found: HostFacts) -> list[str]:
    """The addresses that services of ours need on this host and do not hold: `host:port` each."""
    ports = inventory.ports
    wanted: dict[int, str] = {}
    if host.name == inventory.edge_host:
        wanted |= dict.fromkeys((ports.openai, ports.admin), LOOPBACK) | {
            ports.nodes: listen_for_nodes(inventory.hosts, inventory.edge_host)
        }
    if host.name == inventory.control_host:
        wanted[ports.control] = LOOPBACK
    if inventory.engine_kind in {"simulator", "llama"}:  # others' engines hold their ports rightly
        wanted |= {provider.engine_port: LOOPBACK for provider in host.providers}
    held: set[int] = set()
    for one in found.services:
        if one["state"] == "running":
            kind = one["name"].rpartition(".")[2]
            held |= {ports.openai, ports.nodes, ports.admin} if kind == "edge" else {one.get("port") or 0}
    return [f"{address}:{port}" for port, address in sorted(wanted.items()) if port not in held]


def _tail(inventory: Inventory, name: str, service: str) -> str:
    try:
        return tail(inventory, name, service)
    except SshTrouble:
        return ""
