"""iop.config.inventory_names: a misspelt variable is not lost without a word."""

import pytest

from iop.config.inventory_names import misspelt


def _listing(*names: str) -> dict[str, object]:
    return {"_meta": {"hostvars": {"a": dict.fromkeys(names, 1), "b": {}}}}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("drain_wiat", "drain_wait"),
        ("keep_release", "keep_releases"),
        ("adress", "address"),
        ("smoke_disruptiv", "smoke_disruptive"),
        ("artefacts", "artifacts"),
        ("edge_adress", "edge_address"),
    ],
)
def test_a_near_miss_is_told_with_the_right_name(name: str, meant: str) -> None:
    """Whichever host has it."""
    assert list(misspelt(_listing("node_id", name))) == [(name, meant)]


def test_names_of_the_users_own_pass() -> None:
    """What is further from ours, and what Ansible has."""
    own = ("rack", "ansible_host", "ansible_user", "edge_ip", "node_rack", "owner", "drain", "release", "address")
    assert list(misspelt(_listing(*own))) == []
