"""iop.commands.inventory: an environment as JSON."""

import json
from pathlib import Path

import pytest

from iop.commands.inventory import main

ROOT = Path(__file__).resolve().parents[3]


def test_derived_values_stand_beside_the_declared(capsys: pytest.CaptureFixture[str]) -> None:
    """URLs, folders and endpoints are computed here, so that playbooks compute none."""
    assert main(["dev", "--root", str(ROOT)]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["admin_url"] == "http://127.0.0.1:19093"
    assert found["home"] == str(ROOT / "build" / "dev-runtime")
    mac = found["hosts"][-1]
    assert mac["root"] == f"{found['home']}/hosts/mac"
    assert (found["kind"], found["edge_home"], mac["nodes_addr"]) == ("loopback", found["home"], "127.0.0.1:18084")
    assert (found["edge_host"], found["builder"], mac["remote"], mac["ssh_config"]) == ("mac", "mac", False, None)
    assert mac["providers"][0]["endpoint"] == "http://127.0.0.1:8002/v1"


def test_a_deploy_says_what_it_puts_behind_the_providers(capsys: pytest.CaptureFixture[str]) -> None:
    """`--engine-kind` goes before the inventory's own word and before what runs, and the banner follows it."""
    assert main(["dev", "--root", str(ROOT), "--engine-kind", "llama"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["engine_kind"] == "llama"
    assert found["banner"] == "LOOPBACK, ONE MACHINE: real llama.cpp engines, not your machines"


def test_an_unusable_inventory_exits_1_with_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names file, line and column."""
    (tmp_path / "ansible.cfg").touch()
    folder = tmp_path / "inventory" / "dev"
    for name in ("dev", "dev/group_vars", "dev/host_vars/mac"):
        (tmp_path / "inventory" / name).mkdir(parents=True, exist_ok=True)
    groups = ", ".join(f"{group}: {{hosts: {{mac: }}}}" for group in ("nodes", "edge", "control_plane", "builder"))
    (folder / "hosts.yml").write_text(f"all: {{children: {{{groups}}}}}\n", encoding="utf-8")
    for name in ("group_vars/all.yml", "host_vars/mac/node.yml"):
        text = (ROOT / "inventory" / "dev" / name).read_text(encoding="utf-8")
        (folder / name).write_text(text.replace("capacity: 3", "capacity: three"), encoding="utf-8")

    assert main(["dev", "--root", str(tmp_path)]) == 1
    assert f"{folder}/host_vars/mac/node.yml:16:15" in capsys.readouterr().err


def test_the_operators_yaml_is_printed_as_it_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """`--operator` prints the file of agent-test/ to the byte, so that a redirect makes it."""
    assert main(["dev", "--root", str(ROOT), "--operator"]) == 0
    assert capsys.readouterr().out == (ROOT / "agent-test" / "dev" / "inventory.yaml").read_text(encoding="utf-8")
