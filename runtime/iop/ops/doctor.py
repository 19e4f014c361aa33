"""Why it is not 10 of 10: findings out of the facts, each with its next command. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from iop.ops.facts import Facts, HostFacts

#: seconds; less is no trouble to anything here
CLOCK_S = 60.0


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be: a stable code, where, what, and the next command."""

    code: str
    where: str
    message: str
    step: str


def diagnose(facts: Facts) -> list[Finding]:
    """All findings, causes before their consequences; empty when everything serves."""
    found: list[Finding] = []
    for host in facts.hosts:
        found += _host(facts, host)
    found += _releases(facts)
    if not any(
        one.code in {"never_deployed", "unreachable"} and one.where == facts.inventory.edge_host for one in found
    ):
        found += _edge(facts)
    if facts.edge:
        for host in facts.hosts:
            found += _node(facts, host)
        found += _capacity(facts)
    return found


def slots(facts: Facts) -> tuple[int, int]:
    """How many slots take work now, and how many the inventory declares."""
    ready = [one["capacity"] for one in facts.providers.values() if one["state"] == "ready"]
    return sum(ready), facts.inventory.capacity


def _deploy(facts: Facts, host: HostFacts | None = None) -> str:
    env = facts.inventory.env
    limit = f' ARGS="--limit {host.host.name}"' if host else ""
    return f"make dev{'' if env == 'dev' else f' ENV={env}'}{limit}"


def _fab(facts: Facts, words: str) -> str:
    env = facts.inventory.env
    return f"fab {words}{'' if env == 'dev' else f' --target {env}'}"


def _host(facts: Facts, host: HostFacts) -> Iterator[Finding]:
    name = host.host.name
    if host.trouble is not None:
        code = host.trouble.kind if host.trouble.kind != "other" else "host"
        yield Finding(code, name, host.trouble.message, host.trouble.step)
        return
    if abs(host.clock_off_s) > CLOCK_S:
        ahead = "ahead of" if host.clock_off_s > 0 else "behind"
        text = f"its clock is {_span(abs(host.clock_off_s))} {ahead} this machine's"
        yield Finding("clock", name, text, _CLOCK[host.host.service_manager])
    for one in host.obstacles:
        yield Finding(one["code"], name, one["message"], one.get("hint") or _deploy(facts, host))
    if host.current is None:
        yield Finding("never_deployed", name, "no release is deployed here", _deploy(facts))
        return
    for one in host.down:
        words = host.tails.get(one["name"], "")
        ends = f"; its log ends:\n{_indented(words)}" if words else ""
        look = _fab(facts, f"logs {name} --service {one['name']}")
        step = f"{look}, then {_deploy(facts)}"
        yield Finding("service", name, f"{one['name']} is {one['state']}{ends}", step)


def _releases(facts: Facts) -> Iterator[Finding]:
    current = {host.host.name: host.current for host in facts.hosts if host.current}
    if len(set(current.values())) > 1:
        text = ", ".join(f"{name} {release}" for name, release in sorted(current.items()))
        yield Finding("release_mismatch", "hosts", f"the hosts run different releases: {text}", _deploy(facts))


def _edge(facts: Facts) -> Iterator[Finding]:
    edge, control = facts.inventory.edge_host, facts.inventory.control_host
    if facts.forward_trouble is not None:
        known = any(host.trouble is not None and host.host.name == edge for host in facts.hosts)
        if not known:
            yield Finding(facts.forward_trouble.kind, edge, facts.forward_trouble.message, facts.forward_trouble.step)
        return
    if facts.edge_trouble:
        yield Finding("edge_down", edge, f"the Edge does not answer: {facts.edge_trouble}", _fab(facts, f"logs {edge}"))
    if facts.control_trouble:
        text = f"the Control Plane: {facts.control_trouble}"
        yield Finding("control_down", control, text, _fab(facts, f"logs {control} --service {control}.control"))


def _node(facts: Facts, host: HostFacts) -> Iterator[Finding]:
    name, node = host.host.name, facts.nodes.get(host.host.node_id)
    if node is None:
        yield Finding("node_unknown", name, f"the Edge's config has no node {host.host.node_id}", _deploy(facts))
        return
    away = [one for one in facts.edge.get("turned_away", ()) if one["node_id"] == host.host.node_id]
    if node["state"] == "draining":
        reason = _why_drained(facts, host)
        yield Finding("drained", name, f"{host.host.node_id} is drained{reason}", _fab(facts, f"undrain {name}"))
    elif not node["connected"]:
        if away:
            last = max(away, key=lambda one: str(one["last_at"]))
            yield Finding(last["code"], name, _turned_away(last), _AWAY.get(last["code"], _deploy(facts)))
        elif not host.down and host.current and host.trouble is None:
            address = facts.inventory.nodes_addr(name)
            text = f"{host.host.node_id} runs and is not connected: does {name} reach the Edge at {address}?"
            yield Finding("no_link", name, text, _fab(facts, f"logs {name} --service {name}.node"))
    running = node.get("release_id")
    if node["connected"] and host.current and running and running != host.current:
        text = f"{host.host.node_id} runs {running}, deployed is {host.current}"
        yield Finding("release_running", name, text, _deploy(facts))
    if node["connected"]:
        yield from _resources(facts, host, node)


def _resources(facts: Facts, host: HostFacts, node: dict[str, Any]) -> Iterator[Finding]:
    for provider in host.host.providers:
        seen = facts.providers.get(provider.id)
        if seen is None:
            text = f"the Edge has no provider {provider.id}"
            yield Finding("provider_unknown", host.host.name, text, _deploy(facts))
        elif seen["state"] in {"down", "suspect", "removing"}:
            text = f"{provider.id} is {seen['state']}: {seen.get('reason') or 'no reason told'}"
            url = f"{provider.endpoint}/models"
            yield Finding("engine", host.host.name, text, f"on {host.host.name}: curl -fsS {url}")
    for adapter in node.get("adapters", ()):
        for target in adapter.get("targets") or ():
            if target.get("ready") is False:
                text = f"the agent {target['name']} is not ready: {target.get('reason') or 'no reason told'}"
                login = f"on {host.host.name}, as the service's account: codex login"
                step = login if target.get("kind") == "codex" else _fab(facts, f"logs {host.host.name}")
                yield Finding("agent", host.host.name, text, step)


def _capacity(facts: Facts) -> Iterator[Finding]:
    total, declared = facts.edge["totals"]["capacity"], facts.inventory.capacity
    if total != declared:
        unlike = [
            f"{name} has {facts.providers[name]['capacity']}, declared {provider.capacity}"
            for name, provider in facts.inventory.providers.items()
            if name in facts.providers and facts.providers[name]["capacity"] != provider.capacity
        ]
        text = f"the Edge has {total} slots, the inventory declares {declared}"
        yield Finding("capacity", "Edge", "; ".join([text, *unlike]), _deploy(facts))


def _why_drained(facts: Facts, host: HostFacts) -> str:
    """What the Edge says of a drain: reason and who, and for how long; empty for a node that is stopping."""
    drain = facts.nodes[host.host.node_id].get("drain") or {}
    reasons = [facts.providers[one.id].get("reason") for one in host.host.providers if one.id in facts.providers]
    reason = drain.get("reason") or next((one for one in reasons if one), "")
    left = f", for {_span(drain['left_s'])} more" if drain.get("left_s") else ""
    return f": {reason}{left}" if reason or left else ""


def _turned_away(entry: dict[str, Any]) -> str:
    times = f"{entry['count']} times, last at {entry['last_at']}"
    return f"the Edge turns {entry['node_id']} away ({times}): {entry['code']} from {entry['peer']}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[-12:])


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


_CLOCK = {
    "systemd": "sudo timedatectl set-ntp true",
    "supervisor": "sudo timedatectl set-ntp true",
    "launchd": "sudo sntp -sS time.apple.com",
    "windows_task": "w32tm /resync",
}
_AWAY = {
    "bad_token": "deploy again, which puts the node's token in place",
    "protocol_mismatch": "deploy the same release to Edge and node",
    "duplicate_node": "another machine runs a node of this id: stop it",
}
