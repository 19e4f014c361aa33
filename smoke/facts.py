"""Verdicts of the cases without bursts: what the system says about itself, and single answers. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from smoke.history import Environment, Request, Seen
from smoke.view import Verdict

#: what every case of single answers must have asked: (stream)
_FORMS = (False, True)


def judge_fact(env: Environment, seen: Seen) -> list[Verdict]:
    """Judge one recorded fact by its name."""
    return _BY_NAME[seen.name](env, seen.data)


def judge_answers(env: Environment, requests: list[Request]) -> list[Verdict]:
    """Judge the single answers of one case: streamed and not, whole, with words, from a declared provider."""
    verdicts = []
    for stream in _FORMS:
        mine = [request for request in requests if request.stream is stream]
        ok = bool(mine) and all(
            request.outcome == "ok" and request.text and request.provider in env.capacities for request in mine
        )
        shown = "; ".join(f"{r.error or r.outcome}, {len(r.text)} characters from {r.provider}" for r in mine)
        verdicts.append(Verdict("streamed" if stream else "not streamed", ok, shown or "no answer"))
    return verdicts


def missing(env: Environment, status: Mapping[str, Any]) -> list[str]:
    """Say which nodes and providers the status lacks, shows not ready or with other slots: blockers of all else."""
    edge = status["edge"]["id"]
    if edge != env.edge_id:
        return [f"the Edge there is {edge}, not {env.edge_id}: another environment holds the ports"]
    nodes = {node["id"]: node for node in status["nodes"]}
    providers = {entry["provider_id"]: entry for entry in status["provider_snapshots"]}
    found = []
    for node_id in env.nodes:
        node = nodes.get(node_id)
        if node is None or not node["connected"] or node["state"] != "connected":
            found.append(f"node {node_id} is {node['state'] if node else 'not in the status'}")
    for name in env.capacities:
        entry = providers.get(name)
        if entry is None or entry["state"] != "ready":
            why = f"{entry['state']} ({entry['reason'] or 'no reason told'})" if entry else "not in the status"
            found.append(f"provider {name} is {why}")
        elif entry["capacity"] != env.capacities[name]:
            found.append(f"provider {name} has capacity {entry['capacity']}, the inventory says {env.capacities[name]}")
    return found


def _reachable(env: Environment, data: Mapping[str, Any]) -> list[Verdict]:
    status = data["status"]
    nodes = Counter(node["id"] for node in status["nodes"] if node["connected"])
    providers = Counter(entry["provider_id"] for entry in status["provider_snapshots"])
    shown = {entry["provider_id"]: entry["capacity"] for entry in status["provider_snapshots"]}
    lacking = missing(env, status)
    edges = [edge["id"] for edge in data["edges"] if edge["reachable"]]
    return [
        Verdict("the Control Plane reaches the Edge", env.edge_id in edges, f"reachable: {edges}"),
        Verdict(f"exactly {len(env.nodes)} connected nodes", nodes == Counter(list(env.nodes)), str(sorted(nodes))),
        Verdict(
            f"exactly {len(env.capacities)} provider candidates, no duplicates",
            providers == Counter(list(env.capacities)) and shown == env.capacities,
            str(shown) if len(shown) == providers.total() else str(dict(providers)),
        ),
        Verdict("all of them ready, as declared", not lacking, "; ".join(lacking) or "ready"),
        Verdict("total capacity", status["totals"]["capacity"] == env.capacity, str(status["totals"]["capacity"])),
        *_cli_nodes(env, status),
    ]


def _cli_nodes(env: Environment, status: Mapping[str, Any]) -> list[Verdict]:
    """A node with a CLI agent shows it, unlimited, beside its providers."""
    verdicts = []
    for node_id in env.cli_nodes:
        adapters = [one for node in status["nodes"] if node["id"] == node_id for one in node["adapters"]]
        unlimited = [one for one in adapters if one["type"] == "cli" and one["max_concurrency"] == 0]
        here = {entry["provider_id"] for entry in status["provider_snapshots"] if entry["node_id"] == node_id}
        ok = len(unlimited) == 1 and here == set(env.nodes[node_id])
        shown = f"{len(unlimited)} unlimited CLI adapter, providers {sorted(here)}"
        verdicts.append(Verdict(f"{node_id} shows its CLI and its providers", ok, shown))
    return verdicts


def _models(env: Environment, data: Mapping[str, Any]) -> list[Verdict]:
    ids = data["ids"]
    return [
        Verdict("exactly the configured models", sorted(ids) == sorted(env.models), str(ids)),
        Verdict("each can be asked for", data["one"] == env.smoke_model, str(data["one"])),
    ]


def _refresh(_env: Environment, data: Mapping[str, Any]) -> list[Verdict]:
    plan = data["plan"]
    nothing = plan.get("changes") == [] and plan.get("restart_required") == []
    shown = f"exit {data['exit']}; {len(plan.get('changes') or ())} changes, {plan.get('restart_required')} to restart"
    return [Verdict("nothing to do", data["exit"] == 0 and nothing, f"{shown} {data['stderr']}".strip())]


def _refused(_env: Environment, data: Mapping[str, Any]) -> list[Verdict]:
    return [
        Verdict(f"401 {what}", answer == {"status": 401, "code": "invalid_api_key"}, str(answer))
        for what, answer in data["answers"].items()
    ]


def _sdk(env: Environment, data: Mapping[str, Any]) -> list[Verdict]:
    listed = env.smoke_model in data["models"]
    texts = {name: text for name, text in data["texts"].items() if not text}
    wanted = {"chat", "chat stream", "responses", "responses stream"}
    return [
        Verdict("the SDK lists the model", listed, str(data["models"])),
        Verdict("the SDK reads all four answers", not texts and set(data["texts"]) == wanted, str(data["texts"])[:200]),
    ]


_BY_NAME: dict[str, Callable[[Environment, Mapping[str, Any]], list[Verdict]]] = {
    "reachable": _reachable,
    "models": _models,
    "refresh": _refresh,
    "refused": _refused,
    "sdk": _sdk,
}
