"""`make dev` for real, on loopback: fresh, again, changed, broken, interrupted, repaired, removed (B71).

The order is the order of a life: each test first makes sure of what it stands on, so each also runs alone.
"""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.deploy.conftest import QUICK_TEST, Site

MAC = "inventory/local/host_vars/mac/node.yml"
GX10 = "inventory/local/host_vars/gx10/node.yml"
SERVICES = {
    "mac-mlx-vllm.engine", "gx10-vllm.engine", "onexplayer-lemonade.engine",
    "mac.control", "mac.edge", "mac.node", "gx10.node", "onexplayer.node",
}  # fmt: skip


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
    assert site.fab_status()["well"] is True


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
        after = site.pids()
        assert {name for name in after if after[name] != before[name]} == {"gx10-vllm.engine"}
        assert site.edge_status()["totals"]["capacity"] == 11
    finally:
        site.git("checkout", "-q", "--", GX10)
    assert site.make("dev").code == 0
    assert site.edge_status()["totals"]["capacity"] == 10


def test_a_hand_edit_is_shown_and_kept(site: Site) -> None:
    """An edited edge.yaml stops the run with a diff; the flag overwrites it."""
    site.deployed()
    live = site.home / "edge.yaml"
    live.write_text(live.read_text(encoding="utf-8") + "queue: {max_waiting: 7}\n", encoding="utf-8")

    run = site.make("dev")

    assert run.code != 0
    assert "+queue: {max_waiting: 7}" in run.text
    assert "max_waiting" in live.read_text(encoding="utf-8")
    assert site.make("dev", "-e overwrite_config=true").code == 0
    assert "max_waiting" not in live.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (GX10, "capacity: 4", "capacity: four", "host_vars/gx10/node.yml:12:15"),
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


def test_killed_processes_are_repaired(site: Site) -> None:
    """After kill -9 of a node and of supervisord the next run has one process per service again."""
    site.deployed()
    before = site.pids()
    os.kill(int((site.home / "supervisor" / "supervisord.pid").read_text(encoding="utf-8")), signal.SIGKILL)
    os.kill(before["gx10.node"], signal.SIGKILL)

    run = site.make("dev")

    assert run.code == 0, run.text
    after = site.pids()
    assert not set(after.values()) & set(before.values())
    services = [line for line in site.processes() if "iop-release=" in line]
    assert len(services) == len(SERVICES)
    assert site.fab_status()["well"] is True


def test_an_interrupted_rollout_is_finished_by_the_next_run(site: Site) -> None:
    """Ctrl-C between the Edge and the last node leaves a mixed fleet; the next run finishes it."""
    site.deployed()
    site.edit("runtime/iop/__init__.py", '__version__ = "', '__version__ = "9.')
    head = site.commit("another version")

    child = subprocess.Popen(
        site.command("dev"), cwd=site.root, env=site.env, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdout is not None
    seen = ""
    while "The Edge sees this node" not in seen:
        line = child.stdout.readline()
        assert line, seen
        seen += line
    os.killpg(child.pid, signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode != 0

    run = site.make("dev")

    assert run.code == 0, run.text
    status = site.edge_status()
    assert {one["release_id"].partition("-")[0] for one in (status["edge"], *status["nodes"])} == {head}
    assert run.report["changed"] > 0


def test_failing_tests_stop_the_deploy(site: Site) -> None:
    """A commit whose fast tests fail is not deployed; what runs goes on; the flag deploys it all the same."""
    site.deployed()
    before = site.pids()
    site.edit("tests/unit/test_quick.py", QUICK_TEST, QUICK_TEST + "    raise AssertionError\n")
    site.commit("a failing test")
    try:
        run = site.make("dev")
        assert run.code != 0
        assert "The fast tests fail at this commit" in run.text
        assert run.report["outcome"] == "failed"
        assert site.pids() == before
    finally:
        site.git("reset", "-q", "--hard", "HEAD~1")


def test_a_stranger_on_our_port_is_named_and_left_alone(site: Site) -> None:
    """Someone else's listener stops the run with its pid and command, and lives on; nothing was started."""
    site.make("down")
    stranger = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(site.base + 83), "--bind", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until_listening(site.base + 83)
        run = site.make("dev")
        assert run.code != 0
        assert f"port {site.base + 83} is taken by pid {stranger.pid}" in run.text
        assert "http.server" in run.text
        assert stranger.poll() is None
        assert [line for line in site.processes() if "iop-release=" in line] == []
    finally:
        stranger.terminate()
        stranger.wait()


def test_down_and_clean_leave_nothing(site: Site) -> None:
    """`make down` ends every process and keeps the build; `make clean` removes that too, temp folder included."""
    site.deployed()
    assert site.make("down").code == 0
    assert site.processes() == []
    assert (site.home / "bin" / "edge").is_file()

    assert site.make("clean").code == 0
    assert not (site.root / "build").exists()
    assert site.make("down").code == 0


def _until_listening(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)
