"""fab and its forwards against real sshd: what a person is told of hosts that nothing is deployed to yet."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from iop.admin.ssh import Door
from iop.admin.ssh_trouble import SshTrouble
from iop.admin.tunnel import Tunnel
from tests.lab.lab import HOSTS, ROOT, SSH_CONFIG, Lab

SERVE = "systemd-run -q --unit=stranger /usr/bin/python3 -m http.server --bind 127.0.0.1"


def _doctor() -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "fabric", "doctor", "--target", "lab", "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "runtime")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=180, check=False)
    assert done.stdout.startswith("{"), done.stderr
    return done.returncode, json.loads(done.stdout)


def _codes(found: dict[str, Any], host: str) -> list[str]:
    return [one["code"] for one in found["findings"] if one["where"] == host]


def _config(folder: Path, **changes: str) -> Path:
    """The lab's ssh config with other values for some keys."""
    lines = SSH_CONFIG.read_text(encoding="utf-8").splitlines()
    for key, value in changes.items():
        lines = [f"  {key} {value}" if line.split()[:1] == [key] else line for line in lines]
    path = folder / "ssh_config"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def bare(healed: Lab) -> Lab:
    """Hosts to which nothing is deployed: this file's name comes before those that deploy."""
    if any(healed.exec(host, "test", "-e", "/srv/iop/current").code == 0 for host in HOSTS):
        pytest.skip("something is deployed to this lab: make lab-down, then again")
    return healed


def test_a_lost_host_and_a_wrong_clock_are_told_beside_the_others(bare: Lab) -> None:
    """One cable is out, one clock is two hours ahead; each is named, and so is what is left to do."""
    bare.cut("gx10")
    bare.clock("onexplayer", "+2h")

    code, found = _doctor()

    assert (code, found["well"], found["slots"]) == (1, False, {"ready": 0, "declared": 10})
    assert _codes(found, "gx10") == ["unreachable"]
    assert _codes(found, "onexplayer")[0] == "clock"
    assert all(one["step"] for one in found["findings"])


def test_a_host_that_was_never_prepared_is_told_what_to_run(bare: Lab) -> None:
    """Whether a deploy can work is known before one is tried: definitions first, then a release."""
    bare.exec("gx10", "rm", "-f", "/srv/iop/shared/definitions.json")

    _, found = _doctor()

    steps = {one["code"]: one["step"] for one in found["findings"] if one["where"] == "gx10"}
    assert "playbooks/bootstrap.yml" in steps["definitions"]


def test_a_stranger_on_a_port_of_ours_is_named(bare: Lab) -> None:
    """The engine's port of gx10 is held by a program of somebody else."""
    bare.exec("gx10", *f"{SERVE} 18102".split())
    try:
        _, found = _doctor()
    finally:
        bare.exec("gx10", "systemctl", "stop", "stranger")

    (port,) = (one for one in found["findings"] if one["code"] == "port")
    assert port["where"] == "gx10"
    assert "18102" in port["message"]


def test_forwards_reach_loopback_ports_of_a_host(bare: Lab) -> None:
    """What listens is reached, what does not is told by host and port."""
    bare.exec("mac", *f"{SERVE} 18083".split())
    tunnel = Tunnel(Door("mac", "10.77.0.11", "lab", None, SSH_CONFIG))
    try:
        there, closed = tunnel.open([18083, 19093], 60)
        assert httpx.get(f"http://127.0.0.1:{there}/", trust_env=False).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{closed}/", trust_env=False)
        assert tunnel.why(19093) == "nothing listens on 127.0.0.1:19093 of mac"
    finally:
        tunnel.close()
        bare.exec("mac", "systemctl", "stop", "stranger")


@pytest.mark.parametrize("kind", ["unknown_key", "changed_key", "denied", "unreachable", "config"])
def test_each_refusal_of_a_real_ssh_is_read_rightly(healed: Lab, tmp_path: Path, kind: str) -> None:
    """The words of the real client and server, not only those that the scripted one repeats."""
    known = (ROOT / "build" / "lab" / "known_hosts").read_text(encoding="utf-8").splitlines()
    keys = {line.partition(",")[0]: line.split(None, 1)[1] for line in known}
    mine = tmp_path / "known_hosts"
    mine.write_text(f"10.77.0.12 {keys['10.77.0.11']}\n" if kind == "changed_key" else "", encoding="utf-8")
    stranger = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger)], check=True)
    changes = {
        "unknown_key": {"UserKnownHostsFile": str(mine)},
        "changed_key": {"UserKnownHostsFile": str(mine)},
        "denied": {"IdentityFile": str(stranger)},
        "unreachable": {},
        "config": {"IdentitiesOnly": "perhaps"},
    }
    config = _config(tmp_path, **changes[kind])
    if kind == "unreachable":
        healed.exec("gx10", "systemctl", "stop", "ssh.socket", "ssh.service")

    tunnel = Tunnel(Door("gx10", "10.77.0.12", "lab", None, config))
    try:
        with pytest.raises(SshTrouble) as caught:
            tunnel.open([18102], 60)
    finally:
        tunnel.close()
        if kind == "unreachable":
            healed.exec("gx10", "systemctl", "start", "ssh.service")

    assert (caught.value.kind, "gx10" in caught.value.message) == (kind, True), caught.value


def test_smoke_of_hosts_without_a_deploy_is_blocked_in_words(bare: Lab) -> None:
    """Not a skip and no traceback: each case fails by the one reason, which the report has once."""
    command = [sys.executable, "-m", "pytest", "smoke/", "--target", "lab", "-q", "-p", "no:cacheprovider"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 1, done.stdout
    assert "BLOCKER: nothing listens on 127.0.0.1:18083 of mac" in done.stdout
    assert done.stdout.strip().splitlines()[-1].endswith("13 failed, 0 passed, 1 blocked")
    assert "Traceback" not in done.stdout
    assert bare.status()["mac"] == "running"
