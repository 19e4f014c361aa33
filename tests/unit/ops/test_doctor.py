"""iop.ops.doctor: each thing that can stand in the way is found, told and given its next command."""

from dataclasses import replace
from typing import Any

import pytest

from iop.admin.ssh_trouble import SshTrouble
from iop.ops.doctor import diagnose, slots
from iop.ops.facts import Facts
from tests.fakes.ops_facts import RELEASE, well, with_host

LOST = SshTrouble("unreachable", "gx10 (gx10.test) did not answer within 20 s", "Is it up?")
DOWN = ({"name": "gx10.node", "state": "failed", "pid": None, "release": RELEASE, "port": None},)


def _node(facts: Facts, name: str, **changes: Any) -> Facts:
    edge = {**facts.edge, "nodes": [{**n, **changes} if n["id"] == f"{name}-node" else n for n in facts.edge["nodes"]]}
    return replace(facts, edge=edge)


def _provider(facts: Facts, name: str, **changes: Any) -> Facts:
    entries = [{**p, **changes} if p["provider_id"] == name else p for p in facts.edge["provider_snapshots"]]
    return replace(facts, edge={**facts.edge, "provider_snapshots": entries})


def _away(facts: Facts, code: str) -> Facts:
    entry = {"node_id": "gx10-node", "code": code, "peer": "10.0.0.9:1", "last_at": "2026-01-01T00:00:00Z", "count": 3}
    lost = _node(facts, "gx10", connected=False, state="offline")
    return replace(lost, edge={**lost.edge, "turned_away": [entry]})


def _drained(facts: Facts) -> Facts:
    drained = _node(facts, "gx10", state="draining", drain={"reason": "new disk (by ann)", "left_s": 600.0})
    return _provider(drained, "gx10-p", state="draining", reason="new disk (by ann)")


def _agent(facts: Facts) -> Facts:
    target = {"name": "codex", "kind": "codex", "ready": False, "reason": "not logged in"}
    return _node(facts, "mac", adapters=[{"name": "cli", "targets": [target]}])


def _obstacle(code: str, message: str, hint: str) -> tuple[dict[str, Any], ...]:
    return ({"code": code, "message": message, "hint": hint},)


CASES = {
    "unreachable": (
        lambda facts: with_host(facts, "gx10", trouble=LOST, current=None, services=()),
        ("unreachable", "gx10", "did not answer", "Is it up?"),
    ),
    "never deployed": (
        lambda facts: with_host(facts, "gx10", current=None, services=()),
        ("never_deployed", "gx10", "no release", "make dev ENV=lab"),
    ),
    "service": (
        lambda facts: _node(
            with_host(facts, "gx10", services=DOWN, tails={"gx10.node": "first\nno token"}), "gx10", connected=False
        ),
        ("service", "gx10", "gx10.node is failed; its log ends:\n    first\n    no token", "fab logs gx10 --service"),
    ),
    "clock": (
        lambda facts: with_host(facts, "gx10", clock_off_s=-7300.0),
        ("clock", "gx10", "2.0 h behind", "timedatectl set-ntp true"),
    ),
    "port": (
        lambda facts: with_host(facts, "mac", obstacles=_obstacle("port", "port 18083 is taken by pid 7", "kill 7")),
        ("port", "mac", "port 18083 is taken", "kill 7"),
    ),
    "earlier set-up": (
        lambda facts: with_host(facts, "mac", obstacles=_obstacle("earlier-setup", "mac-mlx-vllm-node", "migrate.md")),
        ("earlier-setup", "mac", "mac-mlx-vllm-node", "migrate.md"),
    ),
    "definitions": (
        lambda facts: with_host(facts, "mac", obstacles=_obstacle("definitions", "no unit", "bootstrap.yml")),
        ("definitions", "mac", "no unit", "bootstrap.yml"),
    ),
    "release mismatch": (
        lambda facts: _node(with_host(facts, "gx10", current="older"), "gx10", release_id="older"),
        ("release_mismatch", "hosts", "gx10 older", "make dev ENV=lab"),
    ),
    "another release runs": (
        lambda facts: _node(facts, "gx10", release_id="older"),
        ("release_running", "gx10", "runs older", "make dev"),
    ),
    "drained": (_drained, ("drained", "gx10", "new disk (by ann), for 10 min more", "fab undrain gx10 --target lab")),
    "wrong token": (lambda facts: _away(facts, "bad_token"), ("bad_token", "gx10", "3 times", "deploy again")),
    "no link": (
        lambda facts: _node(facts, "gx10", connected=False, state="offline"),
        ("no_link", "gx10", "does gx10 reach the Edge at mac.test:18084", "fab logs gx10"),
    ),
    "edge down": (
        lambda facts: replace(facts, edge={}, edge_trouble="nothing listens"),
        ("edge_down", "mac", "nothing listens", "fab logs mac --target lab"),
    ),
    "control plane down": (
        lambda facts: replace(facts, control_trouble="nothing listens on 18001"),
        ("control_down", "mac", "18001", "--service mac.control"),
    ),
    "engine": (
        lambda facts: _provider(facts, "gx10-p", state="down", reason="connection refused"),
        ("engine", "gx10", "gx10-p is down: connection refused", "curl -fsS http://127.0.0.1:8002/v1/models"),
    ),
    "agent": (_agent, ("agent", "mac", "codex is not ready: not logged in", "codex login")),
    "unknown node": (
        lambda facts: replace(facts, edge={**facts.edge, "nodes": facts.edge["nodes"][1:]}),
        ("node_unknown", "gx10", "has no node gx10-node", "make dev"),
    ),
    "unknown provider": (
        lambda facts: replace(
            facts, edge={**facts.edge, "provider_snapshots": facts.edge["provider_snapshots"][1:]}
        ),
        ("provider_unknown", "gx10", "no provider gx10-p", "make dev"),
    ),
    "capacity": (
        lambda facts: _provider(
            replace(facts, edge={**facts.edge, "totals": {"capacity": 10}}), "gx10-p", capacity=4
        ),
        ("capacity", "Edge", "10 slots, the inventory declares 9; gx10-p has 4, declared 3", "make dev"),
    ),
}  # fmt: skip


def test_where_everything_serves_nothing_is_found() -> None:
    """No finding, and every slot takes work."""
    assert diagnose(well()) == []
    assert slots(well()) == (9, 9)


@pytest.mark.parametrize("name", CASES)
def test_what_stands_in_the_way_is_found_with_its_next_command(name: str) -> None:
    """One fault is one finding: code, place, words, step."""
    breaks, (code, where, words, step) = CASES[name]

    (found,) = diagnose(breaks(well()))

    assert (found.code, found.where) == (code, where)
    assert words in found.message
    assert step in found.step


def test_a_lost_edge_host_is_told_once() -> None:
    """The host is not reachable: that the Edge does not answer then is no news."""
    lost = SshTrouble("unreachable", "mac (mac.test) cannot be reached", "Is it up?")
    facts = with_host(well(), "mac", trouble=lost, current=None, services=())
    facts = replace(facts, edge={}, edge_trouble=lost.message, control_trouble=lost.message, forward_trouble=lost)

    assert [(one.code, one.where) for one in diagnose(facts)] == [("unreachable", "mac")]
    assert slots(facts) == (0, 9)


def test_a_forward_that_fails_by_itself_is_told() -> None:
    """Commands run on the host, only forwards do not."""
    facts = replace(well(), edge={}, edge_trouble="x", control_trouble="x", forward_trouble=LOST)

    assert [(one.code, one.where) for one in diagnose(facts)] == [("unreachable", "mac")]


def test_spans_and_clocks_are_for_people() -> None:
    """Seconds, minutes and hours; ahead and behind; each system's own way to set it."""
    for manager, words in (("launchd", "sntp"), ("windows_task", "w32tm")):
        root = "C:/iop" if manager == "windows_task" else "/srv/iop"
        facts = with_host(well(service_manager=manager, root=root), "gx10", clock_off_s=600.0)
        (found,) = diagnose(facts)
        assert "10 min ahead of" in found.message
        assert words in found.step
    assert diagnose(with_host(well(), "gx10", clock_off_s=-59.0)) == []
    (found,) = diagnose(with_host(well(), "gx10", clock_off_s=90.0))
    assert "90 s ahead" in found.message
