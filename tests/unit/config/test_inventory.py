"""iop.config.inventory: the only reader of the inventory."""

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest

from iop.config.inventory import Inventory, InventoryError, find_checkout, load_inventory, parse
from iop.config.inventory_engines import remote_banner

ROOT = Path(__file__).resolve().parents[3]
SHARED: dict[str, Any] = {
    "deploy_env": "dev",
    "edge_id": "edge-x",
    "ports": {"control": 18001, "openai": 18083, "nodes": 18084, "admin": 19093},
    "models": [
        {"id": "m", "providers": {"p": "engine-m"}},
        {"id": "a", "direct": {"node": "n", "adapter": "cli", "target": "t"}},
    ],
    "smoke_model": "m",
    "engine_kind": "simulator",
    "node_id": "n",
    "node_alias": "n",
    "node_platform": "linux",
    "node_arch": "arm64",
    "service_manager": "supervisor",
    "providers": [{"id": "p", "type": "vllm", "category": "local_inference", "capacity": 4, "engine_port": 8002}],
}


GROUPS = {group: {"hosts": ["box"]} for group in ("nodes", "edge", "control_plane", "builder")}
REMOTE = {
    "address": "10.77.0.11",
    "user": "lab",
    "python": "/usr/bin/python3",
    "host_root": "/srv/iop",
    "service_manager": "systemd",
}


def _parse(environ: dict[str, str] | None = None, **changes: object) -> Inventory:
    variables = {**copy.deepcopy(SHARED), **changes}
    return parse({"_meta": {"hostvars": {"box": variables}}, **GROUPS}, Path("/src"), environ or {})


def _pair(first: dict[str, object], second: dict[str, object]) -> Inventory:
    """Two hosts, `box` with the Edge and `far`, each with further variables."""
    plain = {key: value for key, value in copy.deepcopy(SHARED).items() if key != "providers"}
    hostvars = {"box": {**copy.deepcopy(SHARED), **first}, "far": {**plain, "node_id": "n2", **second}}
    listing = {"_meta": {"hostvars": hostvars}, **GROUPS, "nodes": {"hosts": ["far", "box"]}}
    return parse(listing, Path("/src"), {})


@pytest.mark.parametrize(("target", "edge"), [("dev", "edge-toki-labs-dev"), ("local", "edge-toki-labs-local")])
def test_the_shipped_environments_are_the_mission(target: str, edge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nodes with 3 + 4 + 3 slots, mac last, a smoke model that all providers serve, a direct model."""
    monkeypatch.delenv("IOP_PORT_BASE", raising=False)

    found = load_inventory(target, ROOT, "simulator")

    assert (found.edge_id, found.capacity) == (edge, 10)
    assert {host.name: (host.node_id, host.alias) for host in found.hosts} == {
        "gx10": ("gx10-vllm-node", "gx10-vllm"),
        "onexplayer": ("onexplayer-lemonade-node", "onexplayer-lemonade"),
        "mac": ("mac-codex-node", "mac-codex"),
    }
    assert found.hosts[-1].name == "mac"
    assert {one.id: one.capacity for one in found.providers.values()} == {
        "mac-mlx-vllm": 3,
        "gx10-vllm": 4,
        "onexplayer-lemonade": 3,
    }
    assert found.providers["onexplayer-lemonade"].on_disconnect == "cancel_streams"
    assert [model.id for model in found.models if model.direct] == ["codex"]
    assert found.banner.startswith("LOOPBACK, SIMULATED ENGINES")
    assert found.home == ROOT / "build" / f"{target}-runtime"


def test_dev_has_the_ports_of_the_mission() -> None:
    """18001, 18083, 18084, 19093, and the Mac's engine on 8002."""
    found = load_inventory("dev", ROOT)

    assert (found.openai_url, found.nodes_addr("gx10")) == ("http://127.0.0.1:18083/v1", "127.0.0.1:18084")
    assert (found.admin_url, found.control_url) == ("http://127.0.0.1:19093", "http://127.0.0.1:18001")
    assert found.providers["mac-mlx-vllm"].endpoint == "http://127.0.0.1:8002/v1"


def test_a_port_base_moves_every_port() -> None:
    """Ports are counted from `port_base`, and from the variable when it is set."""
    ports = {"control": 1, "openai": 83, "nodes": 84, "admin": 93}
    provider = {**SHARED["providers"][0], "engine_port": 2}

    found = _parse(port_base=28000, ports=ports, providers=[provider])
    moved = _parse({"IOP_PORT_BASE": "30000"}, port_base=28000, ports=ports, providers=[provider])

    assert (found.ports.openai, found.providers["p"].engine_port) == (28083, 28002)
    assert (moved.ports.openai, moved.providers["p"].engine_port) == (30083, 30002)
    assert _parse({"IOP_PORT_BASE": "30000"}).ports.openai == 18083
    for wrong in ("x", "80", "70000", "-1"):
        with pytest.raises(InventoryError, match="IOP_PORT_BASE must be a number"):
            _parse({"IOP_PORT_BASE": wrong}, port_base=28000)


@pytest.mark.parametrize(
    ("name", "value"),
    [("edge_id", "{{ who }}"), ("models", [{"id": "{{ m }}"}]), ("smoke_model", {"__ansible_vault": "x"})],
)
def test_templates_and_vault_are_refused(name: str, value: object) -> None:
    """Other readers take the text as it stands, so a shared value must be a literal."""
    with pytest.raises(InventoryError, match=f"`{name}` must be a literal"):
        _parse(**{name: value})


@pytest.mark.parametrize(
    "change",
    [
        {"smoke_model": "a"},
        {"smoke_model": "nothing"},
        {"models": [{"id": "m", "providers": {"p": "engine-m", "q": "engine-m"}}]},
        {"providers": [{**SHARED["providers"][0], "type": "vlm"}]},
        {"models": [{"id": "m"}]},
        {"ports": {"control": 0, "openai": 1, "nodes": 2, "admin": 3}},
        {"providers": [{**SHARED["providers"][0], "capacity": 0}]},
        {"providers": [{**SHARED["providers"][0], "capacity": True}]},
        {"providers": [{**SHARED["providers"][0], "colour": "red"}]},
        {"node_platform": "amiga"},
        {"ports": [1, 2, 3, 4]},
        {"providers": "vllm"},
        {"providers": ["vllm"]},
        {"providers": None},
        {"deploy_env": "../../elsewhere"},
        {"deploy_env": ""},
        {"deploy_env": "a b"},
        {"keep_releases": "lots"},
        {"simulator_tokens_per_second": 0},
        {"drain_wait": "soon"},
    ],
)
def test_wrong_values_are_refused(change: dict[str, object]) -> None:
    """Types are exact, unknown keys are refused, and the smoke model is served by every provider."""
    with pytest.raises(ValueError, match="validation error"):
        _parse(**change)


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "../box", "a b", "a;b", "{{ x }}", "x" * 64, "box\n"])
def test_a_host_has_a_plain_name(name: str) -> None:
    """It becomes part of paths and of services' names, and an argument of ssh."""
    groups = {group: {"hosts": [name]} for group in GROUPS}
    with pytest.raises(ValueError, match="String should"):
        parse({"_meta": {"hostvars": {name: SHARED}}, **groups}, Path("/src"), {})


def test_an_environment_has_the_name_of_its_folder(tmp_path: Path) -> None:
    """A copied inventory would share build/<deploy_env>-runtime with the first one, and stop what runs there."""
    shutil.copytree(ROOT / "inventory" / "local", tmp_path / "inventory" / "mine")
    (tmp_path / "ansible.cfg").touch()
    with pytest.raises(InventoryError, match=r"all.yml:\d+:13: deploy_env is 'local' in inventory/mine: name it as"):
        load_inventory("mine", tmp_path)


def test_a_misspelt_variable_is_refused_with_its_place(tmp_path: Path) -> None:
    """Nobody would read it: the file, the name as it stands, and the one that is meant."""
    shutil.copytree(ROOT / "inventory" / "local", tmp_path / "inventory" / "local")
    (tmp_path / "ansible.cfg").touch()
    file = tmp_path / "inventory" / "local" / "group_vars" / "all.yml"
    file.write_text("drain_wiat: 30m\nrack: b7\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(InventoryError) as refused:
        load_inventory("local", tmp_path)
    assert str(refused.value) == f"{file}:1:1: drain_wiat: nobody reads this; is drain_wait meant?"


def test_missing_parts_are_named(tmp_path: Path) -> None:
    """A lacking variable, an empty group, an unknown environment and a foreign folder are each told in words."""
    with pytest.raises(InventoryError, match="no hosts"):
        parse({"_meta": {"hostvars": {}}}, tmp_path, {})
    with pytest.raises(InventoryError, match="group `edge` has no hosts"):
        parse({"_meta": {"hostvars": {"box": SHARED}}, **GROUPS, "edge": {}}, tmp_path, {})
    variables = {key: value for key, value in SHARED.items() if key != "edge_id"}
    with pytest.raises(InventoryError, match="lacks `edge_id`"):
        parse({"_meta": {"hostvars": {"box": variables}}, **GROUPS}, tmp_path, {})
    with pytest.raises(InventoryError, match=r"no environment 'nowhere' \(known: dev, lab, local"):
        load_inventory("nowhere", ROOT)
    with pytest.raises(InventoryError, match="not inside a checkout"):
        find_checkout(tmp_path)
    assert find_checkout(ROOT / "tests" / "unit") == ROOT


def test_on_loopback_everything_is_this_machine() -> None:
    """Folders lie below the build folder, nodes dial the loopback address, and the report says so."""
    found = _parse()

    assert (found.kind, found.edge_home, found.service_user("box")) == ("loopback", found.home, None)
    assert found.host_root("box") == Path("/src/build/dev-runtime/hosts/box")
    assert (found.nodes_addr("box"), found.ssh_config("box")) == ("127.0.0.1:18084", None)
    assert found.banner


def test_an_address_makes_the_environment_remote() -> None:
    """Folders are the hosts' own, nodes dial the Edge as they see it, and the banner speaks of engines only."""
    found = _pair(
        {**REMOTE, "ssh_config": "build/lab/ssh_config", "service_user": "iop"},
        {**REMOTE, "address": "far.example", "edge_address": "10.77.0.11", "ssh_port": 2222},
    )

    assert (found.kind, found.banner, found.edge_host) == ("remote", remote_banner("simulator"), "box")
    assert str(found.host_root("box")) == "/srv/iop"
    assert str(found.edge_home) == "/srv/iop/shared"
    assert (found.nodes_addr("box"), found.nodes_addr("far")) == ("127.0.0.1:18084", "10.77.0.11:18084")
    assert found.ssh_config("box") == Path("/src/build/lab/ssh_config")
    assert (found.service_user("box"), found.service_user("far")) == ("iop", "lab")
    assert (found.host("far").ssh_port, found.host("far").remote) == (2222, True)
    assert Inventory.model_validate_json(found.model_dump_json()) == found
    with pytest.raises(InventoryError, match=r"no host 'x' \(known: far, box\)"):
        found.host("x")


def test_an_ipv6_edge_is_dialled_in_brackets() -> None:
    """The port stays apart from the address."""
    assert _pair(REMOTE, {**REMOTE, "address": "b", "edge_address": "fd00::1"}).nodes_addr("far") == "[fd00::1]:18084"


def test_engines_are_of_one_kind() -> None:
    """The kind may stand with each host, but a host that differs is named."""
    with pytest.raises(InventoryError, match=r"same for all hosts: .*'far': 'own'"):
        _pair(REMOTE, {**REMOTE, "address": "b", "edge_address": "10.0.0.9", "engine_kind": "own"})


def test_a_mixture_names_the_hosts_that_lack_an_address_and_the_file_to_write() -> None:
    """Real hosts and this machine are not one environment."""
    with pytest.raises(ValueError, match="box is reached by ssh, but far has no address") as caught:
        _pair(REMOTE, {})
    assert "Write host_vars/far/connection.yml" in str(caught.value)


def test_the_file_of_a_shipped_environment_makes_it_remote(tmp_path: Path) -> None:
    """The literals of connection.yml win over the loopback's own, through Ansible's rules; a mixture has its place."""
    for path in sorted((ROOT / "inventory" / "dev").rglob("*.yml")):
        if path.name != "connection.yml":
            copied = tmp_path / path.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "ansible.cfg").touch()
    vars_of = tmp_path / "inventory" / "dev" / "host_vars"
    for host in ("mac", "gx10", "onexplayer"):
        example = (ROOT / "inventory" / "dev" / "host_vars" / host / "connection.yml.example").read_text("utf-8")
        (vars_of / host / "connection.yml").write_text(example, encoding="utf-8")

    found = load_inventory("dev", tmp_path)
    assert (found.kind, found.engine_kind, found.banner) == ("remote", "own", "")
    managers = {host.name: host.service_manager for host in found.hosts}
    assert managers == {"mac": "launchd", "gx10": "systemd", "onexplayer": "windows_task"}
    assert str(found.host_root("onexplayer")).startswith("C:\\")

    (vars_of / "gx10" / "connection.yml").unlink()
    with pytest.raises(InventoryError, match="gx10 has no address") as caught:
        load_inventory("dev", tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/inventory/dev: ")
