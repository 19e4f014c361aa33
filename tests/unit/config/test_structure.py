"""Structure: unknown keys, missing keys and exact types, each with line, column and a next step (field case B54)."""

import pytest

from iop.config.structure import nearest
from tests.fakes.config_files import EDGE, changed, codes, found


@pytest.mark.parametrize(
    ("swap", "line", "code", "hint"),
    [
        (("capacity: 3", "capcity: 3"), 10, "unknown_key", "did you mean capacity?"),
        (("edge: {id: edge-test}", "edge: {id: edge-test}\nauthh: {}"), 2, "unknown_key", "did you mean auth?"),
        (("edge: {id: edge-test}", "edge: {id: edge-test}\nqueue: {maxWait: 1s}"), 2, "unknown_key", "max_wait"),
        (("edge: {id: edge-test}", "edge: {id: edge-test}\nqueue: {Max-Wait: 1s}"), 2, "unknown_key", "max_wait"),
        (("edge: {id: edge-test}", "edge: {id: edge-test}\nmax_wait: 1s"), 2, "unknown_key", "under queue"),
        (("    providers:\n      - {", "providers:\n  - {"), 9, "unknown_key", "models[] or nodes[]"),
        (("capacity: 3", "capacity: 3, zzz: 1"), 10, "unknown_key", "known here: adapter, capacity"),
        (("command: [", "cmd_: 1, command: ["), 6, "unknown_key", "known here"),
    ],
)
def test_unknown_keys_are_refused_with_the_nearest_known_one(
    swap: tuple[str, str], line: int, code: str, hint: str
) -> None:
    """Field case B54: typos, camel case, wrong indentation and keys that belong elsewhere are errors with a hint."""
    finding = next(f for f in found(changed(swap)) if f.code == code)
    assert (finding.severity, finding.line) == ("error", line)
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("swap", "expected"),
    [
        (("capacity: 3", "capacity: true"), ("wrong_type", 10)),
        (("capacity: 3", "capacity: '3'"), ("wrong_type", 10)),
        (("capacity: 3", "capacity: 3.0"), ("wrong_type", 10)),
        (("capacity: 3", "capacity: 010"), ("wrong_type", 10)),
        (("capacity: 3", "capacity: 1_0"), ("wrong_type", 10)),
        (("capacity: 3", "capacity:"), ("wrong_type", 10)),
        (("capacity: 3", "capacity: 0"), ("wrong_value", 10)),
        (("capacity: 3", "capacity: -1"), ("wrong_value", 10)),
        ((", capacity: 3", ""), ("missing_key", 10)),
        (("id: edge-test", "id: on"), ("quote_it", 1)),
        (("id: edge-test", "id: 12"), ("quote_it", 1)),
        (("id: edge-test", "id: 1:30"), ("quote_it", 1)),
        (("id: edge-test", "id: 2026-01-02"), ("quote_it", 1)),
        (("id: edge-test", "id: 1.5"), ("quote_it", 1)),
        (("id: edge-test", "id: two words"), ("wrong_value", 1)),
        (("id: edge-test", "id: [a]"), ("wrong_type", 1)),
        (("id: edge-test", 'id: "\\ud800"'), ("wrong_value", 1)),
        (("{id: edge-test}", "{}"), ("missing_key", 1)),
        (("{id: edge-test}", "edge-test"), ("wrong_type", 1)),
        (("openai: 127.0.0.1:0", "openai: 18083"), ("wrong_value", 2)),
        (("openai: 127.0.0.1:0", "openai: 127.0.0.1:99999"), ("wrong_value", 2)),
        (("openai: 127.0.0.1:0", "openai: 1:30"), ("wrong_type", 2)),
        (("enabled: true, targets", "enabled: 1, targets"), ("wrong_type", 6)),
        (("kind: text", "kind: shell"), ("wrong_value", 6)),
        (("[python3, /abs/agent.py]", "python3 /abs/agent.py"), ("wrong_type", 6)),
        (("[python3, /abs/agent.py]", "[]"), ("wrong_value", 6)),
        (("[python3, /abs/agent.py]", "[python3, 3.11]"), ("quote_it", 6)),
        (("http://127.0.0.1:8002/v1", "127.0.0.1:8002"), ("wrong_value", 8)),
        (("type: other", "type: ollama"), ("wrong_value", 10)),
        (("category: local_inference", "category: cloud"), ("wrong_value", 10)),
        (("adapter: cli", "adapter: e1"), ("wrong_value", 13)),
        (("p1: engine-model", "p1: 7"), ("quote_it", 12)),
        (("providers: {p1: engine-model}", "providers: {}"), ("wrong_value", 12)),
        (("providers: {p1: engine-model}", "providers: [p1]"), ("wrong_type", 12)),
    ],
)
def test_types_and_values_are_exact(swap: tuple[str, str], expected: tuple[str, int]) -> None:
    """Each wrong type or value has its code and line."""
    assert expected in codes(changed(swap))


@pytest.mark.parametrize("key", ["edge", "nodes", "models"])
def test_the_required_keys_are_required(key: str) -> None:
    """edge.yaml needs edge.id, nodes and models."""
    assert ("missing_key", 1) in codes(f"x-{EDGE}" if key == "edge" else EDGE.replace(f"\n{key}:", f"\nx-{key}:"))


def test_the_escape_hatch_works_at_every_level() -> None:
    """Keys that start with x- are skipped wherever a section stands."""
    text = changed(
        ("edge: {id: edge-test}", "x-note: {any: [thing]}\nedge: {id: edge-test, x-owner: me}"),
        ("capacity: 3", "capacity: 3, x-note: 1"),
        ("command:", "x-a: 1, command:"),
        ("target: echo", "target: echo, x-a: 1"),
    )
    assert found(text) == ()


def test_all_findings_come_at_once_in_the_order_of_the_file() -> None:
    """YAML, structure, references and safety are told together."""
    text = changed(
        ("edge: {id: edge-test}", "edge: {id: edge-test, id: b}"),
        ("openai: 127.0.0.1:0", "openai: 0.0.0.0:0"),
        ("type: other", "typ: other"),
        ("adapter: e1", "adapter: e2"),
        ("{p1: engine-model}", "{p9: engine-model}"),
    )
    assert codes(text) == [
        ("yaml_duplicate_key", 1),
        ("open_without_keys", 2),
        ("missing_key", 10),
        ("unknown_key", 10),
        ("unknown_adapter", 10),
        ("unknown_provider", 12),
    ]


def test_positions_point_at_the_value_or_the_unknown_key() -> None:
    """Line and column lead an editor to the very place; the path names it."""
    wrong = next(f for f in found(changed(("capacity: 3", "capacity: no"))) if f.code == "wrong_type")
    column = EDGE.splitlines()[9].index("3}") + 1
    assert (wrong.file, wrong.line, wrong.column) == ("/cfg/edge.yaml", 10, column)
    assert wrong.path == "nodes[0].providers[0].capacity"


def test_the_only_category_is_named() -> None:
    """The message says that there is one category and which."""
    finding = found(changed(("category: local_inference", "category: cloud")))[0]
    assert finding.message == "the only category is 'local_inference'"


@pytest.mark.parametrize(
    "swap",
    [
        ('endpoint: "http://127.0.0.1:8002/v1"', 'endpoint: "http://127.0.0.1:8002/v1", api_key: hunter2-hunter2'),
        ("edge: {id: edge-test}", "edge: {id: edge-test}\nauth: {admin_token: hunter2-hunter2}"),
        ("edge: {id: edge-test}", "edge: {id: edge-test}\nauth: {api_keys: [{name: a, sha256: hunter2-hunter2}]}"),
        ("  - id: n1", "  - id: n1\n    token: hunter2-hunter2"),
        ("  - id: n1", "  - id: n1\n    token_sha256: hunter2-hunter2"),
        ("http://127.0.0.1:8002/v1", "http://me:hunter2@127.0.0.1:8002/v1"),
    ],
)
def test_a_secret_that_stands_there_is_found_and_not_repeated(swap: tuple[str, str]) -> None:
    """Secrets are files or hashes; a finding about one never shows it."""
    text = changed(swap)
    secret = [f for f in found(text) if f.code == "secret_in_config"]
    assert all(finding.severity == "error" and "SHA-256" in finding.hint for finding in secret)
    assert secret
    assert not any("hunter2" in str(finding) for finding in found(text))


def test_a_numeric_secret_is_not_repeated_either() -> None:
    """The quote-it hint shows no value where a secret would stand."""
    text = changed(("edge: {id: edge-test}", "edge: {id: edge-test}\nauth: {api_keys: [{name: a, sha256: 97531}]}"))
    assert [f.code for f in found(text)] == ["quote_it"]
    assert "97531" not in str(found(text)[0])


def test_nearest_is_none_when_nothing_looks_alike() -> None:
    """A far-off word has no suggestion."""
    assert nearest("capcity", ["capacity", "category"]) == "capacity"
    assert nearest("zzz", ["capacity"]) is None
