"""References: unique ids, existing names, capacities that fit (S02 itself is in tests/contract)."""

import pytest

from tests.fakes.config_files import EDGE, changed, codes, found

INSTANCE = '        - {name: e1, enabled: true, provider: other, endpoint: "http://127.0.0.1:8002/v1"}\n'
PROVIDER = "      - {id: p1, type: other, category: local_inference, adapter: e1, capacity: 3}\n"


@pytest.mark.parametrize(
    ("swap", "expected"),
    [
        ((PROVIDER, PROVIDER * 2), ("duplicate_id", 11)),
        ((INSTANCE, INSTANCE * 2), ("duplicate_id", 9)),
        ((INSTANCE, INSTANCE + INSTANCE.replace("e1", "cli")), ("duplicate_id", 9)),
        (("models:\n", "  - {id: n1}\nmodels:\n"), ("duplicate_id", 11)),
        (("id: agent", "id: m"), ("duplicate_id", 13)),
        (("{p1: engine-model}", "{p1: a, p2: b}"), ("unknown_provider", 12)),
        (("node: n1", "node: n2"), ("unknown_node", 13)),
        (("target: echo", "target: ecco"), ("unknown_target", 13)),
        (("cli: {enabled: true", "cli: {enabled: false"), ("disabled_adapter", 13)),
        (("      cli: {", "      x-cli: {"), ("disabled_adapter", 13)),
        (('8002/v1"}', '8002/v1", capacity: 2}'), ("over_capacity", 8)),
        (("provider: other", "provider: vllm"), ("type_mismatch", 10)),
        (("  - id: n1\n", "  - id: n1\n    runtime: {concurrency: 1}\n"), ("legacy_concurrency", 5)),
    ],
)
def test_broken_references_are_found_with_their_line(swap: tuple[str, str], expected: tuple[str, int]) -> None:
    """Each broken reference has its code and line, and nothing else is found; only labels and legacy are warnings."""
    text = changed(swap)
    assert codes(text) == [expected]
    severity = "warning" if expected[0] in {"type_mismatch", "legacy_concurrency"} else "error"
    assert [finding.severity for finding in found(text)] == [severity]


def test_a_provider_id_is_unique_over_all_nodes() -> None:
    """The same provider id on two nodes is one id too many, and the message names the first line."""
    second = "  - id: n2\n    adapters:\n      openai_compat_instances:\n" + INSTANCE + "    providers:\n" + PROVIDER
    (finding,) = found(changed(("models:\n", second + "models:\n")))
    assert (finding.code, finding.line) == ("duplicate_id", 16)
    assert "line 10" in finding.message


def test_an_instance_may_bear_more_than_its_providers_use() -> None:
    """A sum below or at the instance's capacity is fine."""
    assert codes(changed(('8002/v1"}', '8002/v1", capacity: 3}'))) == []


def test_two_providers_share_what_the_engine_bears() -> None:
    """The sum over all providers of an instance counts."""
    swaps = ((PROVIDER, PROVIDER + PROVIDER.replace("p1", "p2")), ('8002/v1"}', '8002/v1", capacity: 5}'))
    assert codes(changed(*swaps)) == [("over_capacity", 8)]


@pytest.mark.parametrize(
    ("swap", "hint"),
    [
        (("{p1: engine-model}", "{pp1: engine-model}"), "did you mean p1?"),
        (("target: echo", "target: ecco"), "did you mean echo?"),
        (("node: n1", "node: elsewhere"), "known: n1"),
        (("adapter: e1", "adapter: e2"), "known: e1"),
    ],
)
def test_a_wrong_name_comes_with_the_known_ones(swap: tuple[str, str], hint: str) -> None:
    """The hint is the nearest known name, else all of them."""
    assert [finding.hint for finding in found(changed(swap))] == [hint]


def test_no_providers_and_no_models_are_warnings() -> None:
    """Field case B54: an Edge that would serve nothing starts, with a warning for each reason."""
    findings = found("edge: {id: e}\nnodes: []\nmodels: []\n")
    assert [(f.severity, f.code, f.line) for f in findings] == [
        ("warning", "no_providers", 2),
        ("warning", "no_models", 3),
    ]


def test_keys_are_told_apart() -> None:
    """Names and hashes of API keys stand once; an allow-list with an unknown model is a warning."""
    digest = "a" * 64
    keys = f"[{{name: a, sha256: {digest}, models: [mm]}}, {{name: a, sha256: {digest}}}]"
    text = changed(("edge: {id: edge-test}\n", f"edge: {{id: edge-test}}\nauth: {{api_keys: {keys}}}\n"))
    assert sorted((f.severity, f.code) for f in found(text)) == [
        ("error", "duplicate_id"),
        ("error", "duplicate_id"),
        ("warning", "unknown_model"),
    ]


def test_the_smallest_file_has_no_finding() -> None:
    """The interface's own example is clean."""
    assert found(EDGE) == ()
