"""`make dev` for real, on loopback: fresh, again, changed, checked (B71).

The order is the order of a life: each test first makes sure of what it stands on, so each also runs alone.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.conftest import SERVICES, Site

MAC = "inventory/local/host_vars/mac/node.yml"
GX10 = "inventory/local/host_vars/gx10/node.yml"


def test_check_mode_on_a_fresh_host(site: Site) -> None:
    """`--check --diff` passes where nothing is installed, tells what it would do, and starts nothing (B71)."""
    run = site.make("dev", "--check --diff")

    assert run.code == 0, run.text
    assert "changed=0" not in next(line for line in run.text.splitlines() if line.startswith("mac "))
    assert site.processes() == []
    assert not (site.home / "edge.yaml").exists()
    assert not (site.home / "hosts").exists()


def test_deploy_then_nothing_to_do(site: Site) -> None:
    """The first run brings everything up and proves it; the second changes nothing and restarts nothing (B71)."""
    site.deployed()
    before = site.pids()
    first = site.edge_status()

    run = site.make("dev")

    assert run.code == 0, run.text
    assert run.report["changed"] == 0
    assert site.pids() == before
    assert set(before) == SERVICES
    assert all(action == "none" for host in run.report["releases"].values() for action in host["services"].values())
    assert site.edge_status()["edge"]["instance_id"] == first["edge"]["instance_id"]
    assert (first["totals"]["capacity"], [node["state"] for node in first["nodes"]]) == (10, ["connected"] * 3)
    assert "curl -fsS" in run.text.partition("PLAY RECAP")[2]
    assert site.status()["well"] is True
    assert "<title>" in site.page("/")
    assert "iopDrawing" in site.page("/page/drawing.js")  # files that only a whole wheel has


def test_no_inventory_is_said(site: Site, tmp_path: Path) -> None:
    """The playbook started from another folder has no hosts to work on: it fails, and names what to do."""
    for name, target in (("dev-runtime", "make dev"), ("uninstall", "make down")):
        command = [sys.executable, "-m", "ansible", "playbook", str(site.root / "playbooks" / f"{name}.yml")]
        done = subprocess.run(command, cwd=tmp_path, env=site.env, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert f"this inventory has no group nodes. next: run it from the checkout ({target})" in done.stdout


def test_check_mode_on_a_deployed_host(site: Site) -> None:
    """With nothing to do `--check --diff` says so, and touches no process (B71)."""
    site.deployed()
    before = site.pids()

    run = site.make("dev", "--check --diff")

    assert run.code == 0, run.text
    assert run.text.partition("PLAY RECAP")[2].count("changed=0 ") == 3
    assert site.pids() == before


def test_the_operators_commands_work_as_they_are(site: Site) -> None:
    """The commands in bin/ check and refresh the live config; it is the operator's alone."""
    site.deployed()
    edge = [str(site.home / "bin" / "edge"), "--config", str(site.home / "edge.yaml"), "config"]

    for command in (["check"], ["refresh", "--mode", "dry-run", "--addr", f"127.0.0.1:{site.base + 93}"]):
        done = subprocess.run([*edge, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (site.home / "edge.yaml").stat().st_mode & 0o777 == 0o600
    assert site.git("status", "--short") == ""


def test_a_capacity_change_is_applied_live(site: Site) -> None:
    """Another capacity reaches the running Edge without a restart of Edge, nodes or other engines."""
    site.deployed()
    before = site.pids()
    site.edit(GX10, "capacity: 4", "capacity: 5")
    try:
        run = site.make("dev")
        assert run.code == 0, run.text
        said = " ".join(run.text.split())  # Ansible wraps
        assert f"not committed, but used as it stands: M {GX10}" in said
        assert "so not deployed" not in said
        after = site.pids()
        assert {name for name in after if after[name] != before[name]} == {"gx10-vllm.engine"}
        assert site.edge_status()["totals"]["capacity"] == 11
    finally:
        site.git("checkout", "-q", "--", GX10)


def test_a_hand_edit_is_shown_and_kept(site: Site) -> None:
    """An edited edge.yaml stops the run with a diff; the flag overwrites it with what the inventory says."""
    site.deployed()
    live = site.home / "edge.yaml"
    live.write_text(live.read_text(encoding="utf-8") + "queue: {max_waiting: 7}\n", encoding="utf-8")

    run = site.make("dev")

    assert run.code != 0
    assert "+queue: {max_waiting: 7}" in run.text
    assert "max_waiting" in live.read_text(encoding="utf-8")
    assert site.make("dev", "-e overwrite_config=true").code == 0
    assert "max_waiting" not in live.read_text(encoding="utf-8")
    assert site.edge_status()["totals"]["capacity"] == 10  # also after the test above, which left 11 behind


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (GX10, "capacity: 4", "capacity: four", "host_vars/gx10/node.yml:11:15"),
        ("inventory/local/group_vars/all.yml", "target: codex", "target: codec", "edge.candidate.yaml:"),
    ],
)
def test_a_wrong_config_starts_nothing(site: Site, name: str, old: str, new: str, said: str) -> None:
    """The run stops before anything is touched and names file, line and column."""
    site.deployed()
    before = site.pids()
    site.edit(name, old, new)
    try:
        run = site.make("dev")
    finally:
        site.git("checkout", "-q", "--", name)

    assert run.code != 0
    assert said in run.text
    assert "PLAY [Source and build]" not in run.text
    assert site.pids() == before
