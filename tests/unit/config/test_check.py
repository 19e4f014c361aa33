"""The rule sets of the three files."""

import pytest

from iop.config.check import check_control, check_edge, check_node
from iop.config.source import parse
from tests.fakes.config_files import CONTROL, EDGE, NODE, changed


def _codes(text: str, rules: object) -> list[str]:
    document, _ = parse(text, "f.yaml")
    assert document is not None
    return [finding.code for finding in rules(document)]  # type: ignore[operator]


def test_the_smallest_files_pass_every_rule() -> None:
    """The interface's own files have no finding."""
    assert _codes(EDGE, check_edge) == _codes(NODE, check_node) == _codes(CONTROL, check_control) == []


@pytest.mark.parametrize(
    "text",
    [
        "edge: 1\nlisten: [a]\nnodes: {a: 1}\nmodels: x\nauth: y\ntls: 3\n",
        "nodes: [1, {id: [], adapters: 3, providers: [2, {adapter: {}}], runtime: x}]\n",
        "nodes: [{id: a}]\nmodels: [3, {providers: 1}, {direct: 2}, {direct: {node: a, target: []}}]\n",
        "nodes: [{adapters: {cli: {targets: {a: 1, b: {env: 2}}}, openai_compat_instances: [1, {capacity: x}]}}]\n",
    ],
)
def test_rules_survive_any_structure(text: str) -> None:
    """Rules look tolerantly: a file of the wrong shape makes findings elsewhere, never a crash here."""
    for rules in (check_edge, check_node, check_control):
        assert isinstance(_codes(text, rules), list)


def test_node_yaml_is_checked_for_secrets_and_its_way_to_the_edge() -> None:
    """A token as value is found; a dial of another machine without TLS is a warning, with a CA it is none."""
    assert _codes(NODE + "x-t: ghp_" + "a" * 36 + "\n", check_node) == ["secret_in_config"]
    away = changed(("127.0.0.1:18084", "10.0.0.1:18084"), text=NODE)
    assert _codes(away, check_node) == ["plain_link"]
    assert _codes(changed(('18084"', '18084", ca_file: ca.pem'), text=away), check_node) == []


def test_control_yaml_is_checked_for_ids_and_reach() -> None:
    """Edge ids stand once; beyond loopback the Control Plane needs TLS and a token."""
    twice = changed(("edges: [", 'edges: [{id: edge-test, admin_url: "http://h"}, '), text=CONTROL)
    assert _codes(twice, check_control) == ["duplicate_id"]
    open_ = changed(("127.0.0.1:18001", "0.0.0.0:18001"), text=CONTROL)
    token = "auth: {admin_token_file: t}\n"
    assert _codes(open_, check_control) == _codes(open_ + token, check_control) == ["open_control"]
    assert _codes(open_ + "tls: {cert: a, key: b}\n", check_control) == ["open_control"]
    assert _codes(open_ + "tls: {cert: a, key: b}\n" + token, check_control) == []


def test_a_ca_for_a_plain_admin_url_is_an_error() -> None:
    """Who names a CA expects TLS; an http:// URL would ignore it without a word."""
    plain = changed(('19093"', '19093", ca_file: ca.pem'), text=CONTROL)
    assert _codes(plain, check_control) == ["ca_without_tls"]
    assert _codes(changed(("http://", "https://"), text=plain), check_control) == []
