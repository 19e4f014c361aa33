"""iop.config.inventory_listing: from Ansible's listing to plain values."""

import pytest

from iop.config.inventory_listing import InventoryError, values

SHARED = {
    "deploy_env": "x",
    "edge_id": "edge-x",
    "ports": {"control": 1, "openai": 83, "nodes": 84, "admin": 93},
    "models": [],
    "smoke_model": "m",
    "engine_kind": "simulator",
    "node_id": "n",
    "node_alias": "n",
    "node_platform": "linux",
    "node_arch": "arm64",
    "service_manager": "supervisor",
}
GROUPS = {group: {"hosts": ["box"]} for group in ("nodes", "edge", "control_plane", "builder")}


def listing(groups=None, **changes):
    """What `ansible-inventory --list` prints for one host."""
    return {"_meta": {"hostvars": {"box": SHARED | changes}}, **GROUPS, **(groups or {})}


@pytest.mark.parametrize("name", ["bxo", "nobody"])
def test_a_host_without_its_file_is_named_with_the_file(name):
    """A typo in hosts.yml leaves a host that has only what all share, or no variables at all."""
    found = listing({"nodes": {"hosts": ["box", name]}})
    found["_meta"]["hostvars"]["bxo"] = {"service_manager": "supervisor"}
    with pytest.raises(InventoryError, match=rf"{name} lacks `node_id`, which belongs into host_vars/{name}/node\.yml"):
        values(found, {})


@pytest.mark.parametrize("group", ["edge", "control_plane", "builder"])
def test_there_is_one_edge_one_control_plane_and_one_builder(group):
    """A second host in such a group would be left out without a word."""
    with pytest.raises(InventoryError, match=f"the group `{group}` has box and far: it takes one host"):
        values(listing({group: {"hosts": ["box", "far"]}}), {})


def test_ports_are_counted_from_their_base_and_wrong_types_left_to_the_model():
    """Each port and engine port is moved; what is no mapping, no list and no number stays as it is."""
    moved = values(listing(port_base=28000, providers=[{"id": "p", "engine_port": 2}]), {})
    assert (moved["ports"]["admin"], moved["hosts"][0]["providers"][0]["engine_port"]) == (28093, 28002)

    for wrong in ("abc", [1, 2], None, 5):
        found = values(listing(port_base=28000, ports=wrong, providers=wrong), {})
        assert (found["ports"], found["hosts"][0]["providers"]) == (wrong, wrong)
    assert values(listing(port_base=28000, providers=[{"engine_port": "2"}, {}]), {})["hosts"][0]["providers"] == [
        {"engine_port": "2"},
        {},
    ]


def test_what_may_lack_is_passed_on_where_it_is_given():
    """The model has the defaults."""
    assert not {"keep_releases", "drain_wait"} & set(values(listing(), {}))
    given = values(listing(keep_releases=3, drain_wait="5m"), {})
    assert (given["keep_releases"], given["drain_wait"]) == (3, "5m")
