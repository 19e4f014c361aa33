"""S01: node-wide concurrency is documented as legacy/compat metadata, provider capacity as the admission source."""

import inspect
from typing import Any

from iop.config.load import read_edge
from iop.config.schema import edge_schema
from iop.link.messages import NodeRuntimeConfig
from tests.fakes.config_files import changed

DEFS: dict[str, Any] = edge_schema()["$defs"]


def test_s01_schema_calls_concurrency_legacy() -> None:
    """S01: the schema of nodes[].runtime.concurrency says legacy, never a gate, and where capacity lives."""
    field = DEFS["NodeRuntime"]["properties"]["concurrency"]
    assert field["deprecated"] is True
    for words in ("Legacy/compat metadata", "never a gate", "nodes[].providers[].capacity"):
        assert words in field["description"]


def test_s01_schema_calls_provider_capacity_the_admission_source() -> None:
    """S01: the schema of nodes[].providers[].capacity says admission source; it is required and at least 1."""
    provider = DEFS["Provider"]
    assert "admission source" in provider["properties"]["capacity"]["description"]
    assert provider["properties"]["capacity"]["minimum"] == 1
    assert "capacity" in provider["required"]


def test_s01_wire_contract_says_the_same() -> None:
    """S01: the wire message NodeRuntimeConfig documents concurrency as legacy and capacity as the source."""
    words = " ".join((inspect.getdoc(NodeRuntimeConfig) or "").split())
    assert "`concurrency` is legacy/compat metadata" in words
    assert "never a gate" in words
    assert "The admission source is `providers[].capacity`" in words


def test_s01_check_says_that_the_number_has_no_effect() -> None:
    """S01: a config with runtime.concurrency is accepted, with a warning that it is without effect."""
    loaded = read_edge(
        changed(("  - id: n1\n", "  - id: n1\n    runtime: {concurrency: 1}\n")), source="/cfg/edge.yaml"
    )
    assert loaded.ok
    assert loaded.config is not None
    assert loaded.config.nodes[0].runtime.concurrency == 1
    (finding,) = loaded.findings
    assert (finding.severity, finding.code) == ("warning", "legacy_concurrency")
    assert "accepted, without effect" in finding.message
