"""Safety: who can reach what, secrets as values, what is not there yet."""

from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from tests.fakes.config_files import EDGE, changed, codes, found

OPENAI, NODES, ADMIN = "openai: 127.0.0.1:0", "nodes: 127.0.0.1:0", "admin: 127.0.0.1:0"
FIRST = "edge: {id: edge-test}\n"
KEYS = FIRST + "auth: {api_keys: [{name: a, sha256: " + "a" * 64 + "}]}\n"


@pytest.mark.parametrize(
    ("swaps", "expected"),
    [
        (((OPENAI, "openai: 0.0.0.0:0"),), [("error", "open_without_keys")]),
        (((OPENAI, 'openai: "[::]:0"'),), [("error", "open_without_keys")]),
        (((OPENAI, "openai: mac.local:0"),), [("error", "open_without_keys")]),
        (((OPENAI, "openai: 0.0.0.0:0"), (FIRST, KEYS)), [("warning", "keys_over_plain_http")]),
        (((FIRST, KEYS),), []),
        (((ADMIN, "admin: 0.0.0.0:0"),), [("error", "open_admin")]),
        (((NODES, "nodes: 10.0.0.1:0"),), [("error", "open_link"), ("warning", "node_without_token")]),
        (
            ((NODES, "nodes: 10.0.0.1:0"), (FIRST, FIRST + "link: {insecure: true}\n")),
            [("warning", "node_without_token")],
        ),
        (((OPENAI, "openai: localhost:0"), (ADMIN, 'admin: "[::1]:0"')), []),
        (((OPENAI, "openai: 127.0.0.1:5"), (NODES, "nodes: 127.0.0.1:5")), [("error", "duplicate_address")]),
        (((OPENAI, "openai: localhost:5"), (NODES, "nodes: 127.0.0.1:5")), [("error", "duplicate_address")]),
        (((OPENAI, "openai: 127.0.0.2:5"), (NODES, "nodes: 127.0.0.1:5")), []),
        (((OPENAI, "openai: 127.0.0.1:19093"), (", " + ADMIN, "")), [("error", "duplicate_address")]),
    ],
)
def test_listeners(swaps: tuple[tuple[str, str], ...], expected: list[tuple[str, str]]) -> None:
    """Beyond loopback each listener needs what the interface says; no two share an address, port 0 aside."""
    assert [(finding.severity, finding.code) for finding in found(changed(*swaps))] == expected


def test_an_open_wildcard_collides_with_a_loopback_port() -> None:
    """0.0.0.0:P holds 127.0.0.1:P as well."""
    text = changed((OPENAI, "openai: 0.0.0.0:5"), (NODES, "nodes: 127.0.0.1:5"), (FIRST, KEYS))
    assert ("duplicate_address", 3) in codes(text)


@pytest.mark.parametrize(
    ("listener", "swaps"),
    [
        ("openai", ((OPENAI, "openai: 0.0.0.0:0"),)),
        ("nodes", ((NODES, "nodes: 0.0.0.0:0"),)),
        ("admin", ((ADMIN, "admin: 0.0.0.0:0"),)),
    ],
)
def test_with_tls_and_tokens_each_listener_may_leave_loopback(
    listener: str, swaps: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    """No finding when certificate, key and tokens are there; without its TLS there is one."""
    pair = Authority(tmp_path).issue("server")
    (tmp_path / "t").write_text("token")
    (tmp_path / "t").chmod(0o600)
    auth = f"auth: {{admin_token_file: {tmp_path}/t, api_keys: [{{name: a, sha256: {'a' * 64}}}]}}\n"
    tls = f"tls: {{{listener}: {{cert: {pair['cert']}, key: {pair['key']}}}}}\n"
    node = ("  - id: n1\n", f"  - id: n1\n    token_sha256: {'a' * 64}\n")
    assert found(changed(*swaps, node, (FIRST, FIRST + auth + tls))) == ()
    assert len(found(changed(*swaps, node, (FIRST, FIRST + auth)))) == 1


def test_kind_codex_is_no_finding() -> None:
    """A codex target is a target like any other."""
    assert found(changed(("kind: text", "kind: codex"))) == ()


def test_a_node_has_one_token() -> None:
    """A token file and a hash together are refused."""
    text = changed(("  - id: n1\n", f"  - id: n1\n    token_file: /none\n    token_sha256: {'a' * 64}\n"))
    assert ("two_tokens", 6) in codes(text)


@pytest.mark.parametrize(
    "secret",
    ["sk-" + "proj-abcdefgh12345678", "ghp_" + "a" * 36, "hf_" + "b" * 30, "xoxb-" + "1" * 12, "AKIA" + "A" * 16],
)
def test_a_value_that_looks_like_a_token_is_an_error_wherever_it_stands(secret: str) -> None:
    """Well-known token shapes are found in commands and environment alike, and never repeated."""
    for swap in (
        ("/abs/agent.py]", f"/abs/agent.py, --key={secret}]"),
        ("kind: text", f"kind: text, env: {{ANY: {secret}}}"),
    ):
        (finding,) = found(changed(swap))
        assert (finding.severity, finding.code, finding.line) == ("error", "secret_in_config", 6)
        assert secret not in str(finding)


def test_an_environment_variable_with_the_name_of_a_secret_is_a_warning() -> None:
    """OPENAI_API_KEY with a value in the file is told; PATH is not."""
    text = changed(("kind: text", "kind: text, env: {OPENAI_API_KEY: abc, PATH: /bin}"))
    assert [(f.severity, f.code, f.path.rsplit(".")[-1]) for f in found(text)] == [
        ("warning", "secret_in_config", "OPENAI_API_KEY")
    ]


def test_the_smallest_file_is_safe() -> None:
    """Loopback without keys is fine."""
    assert codes(EDGE) == []
