"""The verdicts of the cases without bursts: each can fail."""

from typing import Any

import pytest

from smoke.facts import judge_answers, judge_fact, missing
from smoke.history import Seen
from tests.fakes.smoke_story import environment, request, status


def failed(name: str, data: dict[str, Any]) -> list[str]:
    """Names of the verdicts on a fact that are not good."""
    return [verdict.name for verdict in judge_fact(environment(), Seen(0.0, "c", name, data)) if not verdict.ok]


def reachable(edges: list[dict[str, Any]] | None = None, **changes: Any) -> list[str]:
    """Names of the failed verdicts on a status with these changes."""
    edges = [{"id": "edge-test", "reachable": True, "age_s": 0.1}] if edges is None else edges
    return failed("reachable", {"edges": edges, "status": status(**changes)})


def test_a_whole_status_is_reachable() -> None:
    """All nodes, all providers, CLI and provider side by side."""
    assert reachable() == []
    assert missing(environment(), status()) == []


def test_an_edge_that_the_control_plane_does_not_reach_fails() -> None:
    """Known is not enough."""
    assert reachable(edges=[{"id": "edge-test", "reachable": False}]) == ["the Control Plane reaches the Edge"]
    assert reachable(edges=[]) == ["the Control Plane reaches the Edge"]


def test_a_node_that_is_offline_fails_and_is_a_blocker() -> None:
    """An offline node is one connected node too few, and named."""
    nodes = status()["nodes"]
    nodes[1] |= {"connected": False, "state": "offline"}

    assert reachable(nodes=nodes) == ["exactly 2 connected nodes", "all of them ready, as declared"]
    assert missing(environment(), status(nodes=nodes)) == ["node n2 is offline"]
    assert missing(environment(), status(nodes=nodes[:1])) == ["node n2 is not in the status"]


def test_one_node_more_than_declared_fails() -> None:
    """The Mac registered as a second node is found."""
    nodes = status()["nodes"]

    assert reachable(nodes=[*nodes, {**nodes[1], "id": "n2-again"}]) == ["exactly 2 connected nodes"]


def test_a_duplicate_or_another_provider_fails() -> None:
    """A second snapshot of one provider, another capacity, or a provider that is not declared each fail."""
    providers = status()["provider_snapshots"]
    name = "exactly 2 provider candidates, no duplicates"

    assert reachable(provider_snapshots=[*providers, providers[1]]) == [name]
    assert reachable(provider_snapshots=[providers[0], {**providers[1], "capacity": 9}]) == [
        name,
        "all of them ready, as declared",
    ]
    assert reachable(provider_snapshots=[*providers, {**providers[1], "provider_id": "x"}]) == [name]


def test_a_provider_that_is_down_is_a_blocker_with_its_reason() -> None:
    """State and reason are told as the Edge tells them."""
    providers = status()["provider_snapshots"]
    providers[1] |= {"state": "down", "reason": "connection refused"}

    assert reachable(provider_snapshots=providers) == ["all of them ready, as declared"]
    assert missing(environment(), status(provider_snapshots=providers)) == ["provider b is down (connection refused)"]
    resized = [providers[0], {**providers[1], "state": "ready", "capacity": 9}]
    assert missing(environment(), status(provider_snapshots=resized)) == [
        "provider b has capacity 9, the inventory says 2"
    ]
    assert missing(environment(), status(provider_snapshots=[])) == [
        "provider a is not in the status",
        "provider b is not in the status",
    ]


@pytest.mark.parametrize("adapters", [[], [{"name": "cli", "type": "cli", "max_concurrency": 1}]])
def test_a_cli_that_is_missing_or_limited_fails(adapters: list[dict[str, Any]]) -> None:
    """The node with a CLI agent must show it, and as unlimited."""
    nodes = status()["nodes"]
    nodes[0]["adapters"] = adapters

    assert reachable(nodes=nodes) == ["n1 shows its CLI and its providers"]


def test_models_are_exactly_the_configured_ones() -> None:
    """One too few, one too many or another answer for one id fails."""
    assert failed("models", {"ids": ["agent", "m"], "one": "m"}) == []
    assert failed("models", {"ids": ["m"], "one": "m"}) == ["exactly the configured models"]
    assert failed("models", {"ids": ["agent", "m", "m"], "one": "m"}) == ["exactly the configured models"]
    assert failed("models", {"ids": ["agent", "m"], "one": "agent"}) == ["each can be asked for"]


@pytest.mark.parametrize(
    ("exit_code", "plan", "ok"),
    [
        (0, {"changes": [], "restart_required": []}, True),
        (0, {"changes": [{"kind": "added"}], "restart_required": []}, False),
        (3, {"changes": [], "restart_required": [{"path": "edge.id"}]}, False),
        (4, {}, False),
        (0, {}, False),
    ],
)
def test_a_refresh_must_have_nothing_to_do(exit_code: int, plan: dict[str, Any], ok: bool) -> None:
    """Exit 0 and an empty plan, nothing less."""
    assert (failed("refresh", {"exit": exit_code, "plan": plan, "stderr": ""}) == []) is ok


def test_a_change_that_is_not_refused_fails() -> None:
    """Only 401 invalid_api_key is a refusal."""
    good = {"status": 401, "code": "invalid_api_key"}

    assert failed("refused", {"answers": {"x": good, "y": {"status": 200, "code": None}}}) == ["401 y"]
    assert failed("refused", {"answers": {"x": {"status": 401, "code": None}}}) == ["401 x"]


def test_the_sdk_must_read_all_four_answers() -> None:
    """An empty text, a missing answer or a missing model fails."""
    texts = dict.fromkeys(("chat", "chat stream", "responses", "responses stream"), "words")

    assert failed("sdk", {"models": ["m"], "texts": texts}) == []
    assert failed("sdk", {"models": [], "texts": texts}) == ["the SDK lists the model"]
    assert failed("sdk", {"models": ["m"], "texts": {**texts, "chat": ""}}) == ["the SDK reads all four answers"]
    assert failed("sdk", {"models": ["m"], "texts": {"chat": "words"}}) == ["the SDK reads all four answers"]


def test_single_answers_need_both_forms_words_and_a_declared_provider() -> None:
    """Streamed and not, each whole, with words and from a provider of the inventory."""
    whole, stream = request("r1", stream=False), request("r2")

    def bad(*requests: Any) -> list[str]:
        return [verdict.name for verdict in judge_answers(environment(), list(requests)) if not verdict.ok]

    assert bad(whole, stream) == []
    assert bad(whole) == ["streamed"]
    assert bad(whole, request("r2", outcome="failed", error="HTTP 503")) == ["streamed"]
    assert bad(request("r1", stream=False, provider="elsewhere"), stream) == ["not streamed"]
    assert bad(request("r1", stream=False, provider=None), stream) == ["not streamed"]


def test_another_environments_edge_is_told_before_anything_else() -> None:
    """Its nodes and providers may have the same names; what is proved there says nothing about ours."""
    other = status(edge={**status()["edge"], "id": "edge-other"})

    assert missing(environment(), other) == [
        "the Edge there is edge-other, not edge-test: another environment holds the ports"
    ]
