"""The plan of a refresh: each kind of change with its path, restarts with their reasons."""

import pytest

from iop.config.load import read_edge
from iop.config.models import EdgeConfig
from iop.config.plan import Plan, plan
from tests.fakes.config_files import EDGE, changed


def _config(text: str) -> EdgeConfig:
    config = read_edge(text, source="/cfg/edge.yaml").config
    assert config is not None
    return config


def _plan(*swaps: tuple[str, str]) -> Plan:
    return plan(_config(EDGE), _config(changed(*swaps)))


PROVIDER = "      - {id: p1, type: other, category: local_inference, adapter: e1, capacity: 3}\n"
P1, E1 = "nodes[n1].providers[p1]", "nodes[n1].adapters.openai_compat_instances[e1]"


@pytest.mark.parametrize(
    ("swap", "kind", "path", "before", "after"),
    [
        (("capacity: 3", "capacity: 5"), "resized", f"{P1}.capacity", 3, 5),
        (("3}", "3, on_disconnect: finish}"), "changed", f"{P1}.on_disconnect", "cancel", "finish"),
        (("8002", "8003"), "changed", f"{E1}.endpoint", "http://127.0.0.1:8002/v1", "http://127.0.0.1:8003/v1"),
        (('v1"}', 'v1", capacity: 4}'), "changed", f"{E1}.capacity", None, 4),
        (("{p1: engine-model}", "{p1: other}"), "rerouted", "models[m].providers[p1]", "engine-model", "other"),
        (("id: n1\n", "id: n1\n    alias: box\n"), "changed", "nodes[n1].alias", None, "box"),
        (("edge: {", "queue: {max_wait: 90s}\nedge: {"), "changed", "queue.max_wait", "2m", "90s"),
        (("edge: {", "http: {max_body: 1MiB}\nedge: {"), "changed", "http.max_body", "64MiB", "1MiB"),
        (("edge: {", "http: {allowed_hosts: [a]}\nedge: {"), "changed", "http.allowed_hosts", [], ["a"]),
        (("/abs/agent.py", "/abs/b.py"), "changed", "nodes[n1].adapters.cli.targets[echo].command", None, None),
    ],
)
def test_one_change_is_one_entry(swap: tuple[str, str], kind: str, path: str, before: object, after: object) -> None:
    """Each changed field is told once, by kind, path and both values as the config writes them."""
    (change,) = _plan(swap).changes
    assert (change.kind, change.path) == (kind, path)
    if before is not None or after is not None:
        assert change.as_json() == {"kind": kind, "path": path, "from": before, "to": after}


def test_an_identical_or_reordered_file_is_no_change() -> None:
    """Comments, order of keys and of named entries are no change."""
    lines = EDGE.splitlines(keepends=True)
    text = "# hello\n" + "".join([*lines[:-2], lines[-1], lines[-2]])
    assert plan(_config(EDGE), _config(text)) == Plan((), ())


def test_providers_come_and_go() -> None:
    """An added provider and a removed one are told with what they are."""
    text = changed((PROVIDER, PROVIDER.replace("p1", "p2")), ("p1: engine-model", "p2: engine-model"))
    entries = [(c.kind, c.path) for c in plan(_config(EDGE), _config(text)).changes]
    assert entries == [
        ("removed", P1),
        ("added", "nodes[n1].providers[p2]"),
        ("rerouted", "models[m].providers[p1]"),
        ("rerouted", "models[m].providers[p2]"),
    ]


def test_a_node_comes_with_its_providers() -> None:
    """A new node is one entry, each of its providers another; going back is the same the other way round."""
    node = EDGE[EDGE.index("  - id: n1") : EDGE.index("models:")].replace("n1", "n2").replace("p1", "p2")
    old, new = _config(EDGE), _config(changed(("models:\n", node + "models:\n")))
    there = [(c.kind, c.path) for c in plan(old, new).changes]
    back = [(c.kind, c.path) for c in plan(new, old).changes]
    assert there == [("added", "nodes[n2]"), ("added", "nodes[n2].providers[p2]")]
    assert back == [("removed", "nodes[n2]"), ("removed", "nodes[n2].providers[p2]")]


def test_models_and_targets_come_and_go() -> None:
    """Models and CLI targets are entries by name."""
    target = "echo: {kind: text, command: [python3, /abs/agent.py]}"
    text = changed(
        (target, f"{target}, two: {{kind: text, command: [x]}}"),
        ("models:\n", "models:\n  - {id: z, providers: {p1: e}}\n"),
        ("target: echo", "target: two"),
    )
    entries = [(c.kind, c.path) for c in plan(_config(EDGE), _config(text)).changes]
    assert entries == [
        ("added", "nodes[n1].adapters.cli.targets[two]"),
        ("added", "models[z]"),
        ("rerouted", "models[agent].direct.target"),
    ]


@pytest.mark.parametrize(
    ("swap", "path"),
    [
        (("id: edge-test", "id: edge-two"), "edge.id"),
        (("openai: 127.0.0.1:0", "openai: 127.0.0.1:1"), "listen.openai"),
        (("nodes: 127.0.0.1:0", "nodes: 127.0.0.1:1"), "listen.nodes"),
        (("admin: 127.0.0.1:0", "admin: 127.0.0.1:1"), "listen.admin"),
        (("edge: {", "http: {allowed_hosts: [a]}\nedge: {"), "http.allowed_hosts"),
        (("edge: {", "link: {dead_after: 9s}\nedge: {"), "link.dead_after"),
    ],
)
def test_what_cannot_be_applied_live_needs_a_restart(swap: tuple[str, str], path: str) -> None:
    """Each such field is listed with its reason, and among the changes."""
    result = _plan(swap)
    assert [entry.path for entry in result.restart_required] == [path]
    assert result.restart_required[0].as_json()["reason"]
    assert [change.path for change in result.changes] == [path]


def test_a_resize_needs_no_restart() -> None:
    """Capacity is applied live."""
    assert _plan(("capacity: 3", "capacity: 1")).restart_required == ()


def test_no_secret_is_shown() -> None:
    """Hashes and environment values are hidden, in changes and in whole entries alike."""
    hashes = ["a" * 64, "b" * 64, "c" * 64]
    env, key = (
        "kind: text, env: {{NAME: {0}}}",
        "edge: {{id: edge-test}}\nauth: {{api_keys: [{{name: k, sha256: {0}}}]}}",
    )
    token = "id: n1\n    token_sha256: {0}"

    def text(value: str, digest: str) -> str:
        return changed(
            ("kind: text", env.format(value)),
            ("edge: {id: edge-test}", key.format(digest)),
            ("id: n1\n", token.format(digest) + "\n"),
        )

    old, new = _config(text("hunter1", hashes[0])), _config(text("hunter2", hashes[1]))
    for result in (plan(old, new), plan(_config(EDGE), new), plan(new, _config(EDGE))):
        assert result.changes
        shown = repr(result)
        assert not any(secret in shown for secret in ("hunter", *hashes))
