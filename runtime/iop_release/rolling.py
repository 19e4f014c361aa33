"""What a rolling deploy asks about one node, as the Edge sees it: may it go, is it idle, is it the wanted one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iop_release.admin import DEPLOYER, Admin
from iop_release.errors import ReleaseError

_POLL_S = 0.25
_RENEW_S = 5.0  # a wait renews its lease this often


def node_of(status: dict[str, Any], node_id: str) -> dict[str, Any]:
    """The node in a status; empty when the Edge does not know it."""
    return next((node for node in status.get("nodes", ()) if node["id"] == node_id), {})


def providers_of(status: dict[str, Any], node_id: str) -> list[dict[str, Any]]:
    """The node's providers in a status."""
    return [one for one in status.get("provider_snapshots", ()) if one["node_id"] == node_id]


def lease_of(status: dict[str, Any], node_id: str) -> str:
    """Who holds a drain lease on the node: `deploy`, `other`, or empty for none."""
    reasons = [one.get("reason") or "" for one in providers_of(status, node_id) if one["state"] == "draining"]
    if not reasons or all(reason == "stopping" for reason in reasons):
        return ""
    return "deploy" if any(reason.endswith(f"(by {DEPLOYER})") for reason in reasons) else "other"


def gaps(status: dict[str, Any], node_id: str) -> list[str]:
    """Pool models that only this node serves now: a ready provider here, and none on another node."""
    mine: set[str] = set()
    others: set[str] = set()
    for one in status.get("provider_snapshots", ()):
        if one["state"] == "ready":
            (mine if one["node_id"] == node_id else others).update(one["models"])
    return sorted(mine - others)


def running(status: dict[str, Any], node_id: str) -> dict[str, int]:
    """What still runs on the node, by provider; `direct` are requests to its CLI agents."""
    found = {one["provider_id"]: one["in_flight"] for one in providers_of(status, node_id)}
    found["direct"] = node_of(status, node_id).get("direct", {}).get("in_flight", 0)
    return {name: count for name, count in found.items() if count}


def before(admin: Admin, node_id: str) -> dict[str, Any]:
    """All that a plan needs of the node: link and identity, `lease`, `gaps`, and `away`: providers that were not well.

    Raises `ReleaseError` when the Edge does not answer.
    """
    status = admin.status()
    node = node_of(status, node_id)
    return {
        "known": bool(node),
        "connected": node.get("connected", False),
        "instance_id": node.get("instance_id"),
        "release_id": node.get("release_id"),
        "lease": lease_of(status, node_id),
        "gaps": gaps(status, node_id),
        "away": [
            one["provider_id"]
            for one in providers_of(status, node_id)
            if node.get("connected") and one["state"] in ("down", "suspect")
        ],
    }


def drain(
    admin: Admin, node_id: str, *, lease_s: float, wait_s: float, reason: str, by: str = DEPLOYER
) -> dict[str, Any]:
    """Take or renew the lease and wait at most `wait_s` seconds until nothing runs: `idle`, `running`, `seconds`.

    A deploy leaves the lease of an operator as it is: `ours` is false. Raises `ReleaseError` when the Edge refuses.
    """
    began = admin.clock()
    ours = by != DEPLOYER or lease_of(admin.status(), node_id) != "other"
    renewed = None
    while True:
        now = admin.clock()
        if ours and (renewed is None or now - renewed >= _RENEW_S):
            admin.drain(node_id, lease_s, reason, by)
            renewed = now
        left = running(admin.status(), node_id)
        spent = round(admin.clock() - began, 1)
        if not left or spent >= wait_s:
            if ours:
                admin.drain(node_id, lease_s, reason, by)  # its full length for what comes next
            return {"changed": ours, "idle": not left, "running": left, "seconds": spent, "ours": ours}
        admin.sleep(_POLL_S)


def gate(admin: Admin, node_id: str, release: str, *, not_instance: str | None, wait_s: float) -> dict[str, Any]:
    """Wait until the Edge sees this node connected, with this release, as another instance than `not_instance`.

    `ok`, `attempts`, `seconds`, `said`. An Edge that does not answer for a moment is asked again.
    """
    began, attempts, seen = admin.clock(), 0, ""
    while True:
        attempts += 1
        try:
            node = node_of(admin.status(), node_id)
        except ReleaseError as error:
            node, seen = {}, str(error)
        else:
            seen = _seen(node)
        good = (
            bool(node.get("connected"))
            and node.get("release_id") == release
            and (not not_instance or node.get("instance_id") != not_instance)
        )
        spent = round(admin.clock() - began, 1)
        if good or spent >= wait_s:
            said = (
                "" if good else f"after {spent:.0f} s the Edge sees node {node_id} {seen}, not with release {release}"
            )
            return {"ok": good, "attempts": attempts, "seconds": spent, "said": said}
        admin.sleep(_POLL_S)


def check(admin: Admin, node_id: str, *, wait_s: float, skip: Sequence[str] = ()) -> dict[str, Any]:
    """One answer of each provider of the node that a pool model leads to: `ok`, `checks` by provider, `said`."""
    wanted = {
        one["provider_id"]: one["models"][0]
        for one in providers_of(admin.status(), node_id)
        if one["models"] and one["provider_id"] not in skip
    }
    found = {provider: admin.check(provider, model, wait_s) for provider, model in wanted.items()}
    said = "; ".join(f"provider {name}: {one['said']}" for name, one in found.items() if not one["ok"])
    return {"ok": not said, "checks": found, "said": said}


def _seen(node: dict[str, Any]) -> str:
    if not node:
        return "not at all"
    if not node.get("connected"):
        return "offline"
    return f"with release {node.get('release_id')}, instance {node.get('instance_id')}"
