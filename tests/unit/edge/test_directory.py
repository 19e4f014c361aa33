"""Who may connect, and what a node is told."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from iop.config.models import EdgeConfig
from iop.edge.directory import Directory, find_node

ENGINE = {"name": "e", "enabled": True, "provider": "other", "endpoint": "http://127.0.0.1:1/v1"}
OFF = {**ENGINE, "name": "off", "enabled": False}
PROVIDERS = (
    {"id": "p", "type": "other", "category": "local_inference", "adapter": "e", "capacity": 3},
    {
        "id": "q",
        "type": "other",
        "category": "local_inference",
        "adapter": "e",
        "capacity": 2,
        "on_disconnect": "finish",
    },
)


def _directory(**node: Any) -> Directory:
    agent = {"kind": "text", "command": ["agent"], "timeout": "5s"}
    adapters = {"cli": {"enabled": True, "targets": {"a": agent}}, "openai_compat_instances": [ENGINE, OFF]}
    entry = {"id": "n", "adapters": adapters, "providers": PROVIDERS, "runtime": {"concurrency": 1}, **node}
    config = EdgeConfig.model_validate({"edge": {"id": "x"}, "nodes": [entry], "models": []})
    return Directory(lambda: (config, 7))


def test_an_unknown_node_is_turned_away() -> None:
    """A node that is not declared has no place here."""
    assert _directory().check("other", None, True) == "unknown_node"


def test_without_a_token_only_from_loopback() -> None:
    """A node without a configured token may connect from loopback only."""
    directory = _directory()

    assert directory.check("n", None, True) is None
    assert directory.check("n", None, False) == "bad_token"


@pytest.mark.parametrize("kind", ["hash", "file"])
def test_a_configured_token_must_be_presented(kind: str, tmp_path: Path) -> None:
    """The right token passes from anywhere; a wrong or missing one nowhere."""
    (tmp_path / "token").write_text("s3cret\n")
    by_hash = {"token_sha256": hashlib.sha256(b"s3cret").hexdigest()}
    directory = _directory(**(by_hash if kind == "hash" else {"token_file": str(tmp_path / "token")}))

    assert directory.check("n", "s3cret", False) is None
    assert directory.check("n", "wrong", True) == "bad_token"
    assert directory.check("n", None, True) == "bad_token"
    assert directory.check("n", "\ud800", True) == "bad_token"


def test_an_unreadable_token_file_lets_nobody_in(tmp_path: Path) -> None:
    """A token that cannot be read fails closed."""
    assert _directory(token_file=str(tmp_path / "missing")).check("n", "anything", True) == "bad_token"


def test_the_runtime_config_is_the_declared_catalog() -> None:
    """Enabled engines, targets and providers travel with their capacities; the legacy number is only carried."""
    generation, runtime = _directory().config("n")

    assert generation == 7
    assert [(e.name, e.capacity) for e in runtime.engines] == [("e", 5)]
    assert [(p.id, p.capacity, p.on_disconnect) for p in runtime.providers] == [("p", 3, "cancel"), ("q", 2, "finish")]
    assert [(t.name, t.command, t.timeout) for t in runtime.cli_targets] == [("a", ("agent",), 5.0)]
    assert runtime.concurrency == 1


def test_an_unknown_node_has_no_config() -> None:
    """Asking for it is a programming error."""
    with pytest.raises(KeyError):
        _directory().config("other")


def test_an_instances_capacity_is_the_sum_of_its_providers() -> None:
    """Two providers on one instance add up."""
    config = EdgeConfig.model_validate(
        {"edge": {"id": "x"}, "nodes": [{"id": "n", "providers": PROVIDERS}], "models": []}
    )
    node = find_node(config, "n")

    assert node is not None
    assert node.instance_capacity("e") == 5
