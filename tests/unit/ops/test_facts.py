"""iop.ops.facts: everyone is asked, side by side, and nobody's silence hides the others."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iop.admin.forwards import Forwards
from iop.ops.facts import HostFacts, gather, wanted_ports
from tests.fakes import fake_ssh
from tests.fakes.ops_facts import RELEASE, well
from tests.fakes.quiet_http import Quiet, served_by
from tests.fakes.remote_inventory import NAMES, remote

ROOT = Path(__file__).resolve().parents[3]


class Plane(Quiet):
    """Answers as an Edge and as a Control Plane that does not reach it."""

    def answer(self) -> None:
        body = {"/status": {"schema": 1, **well().edge}, "/edges": {"edges": [{"id": "edge-lab", "reachable": False}]}}
        self.say(200, json.dumps(body[self.path]).encode())


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a `Plane`."""
    with served_by(Plane) as number:
        yield number


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of PATH for the scripted ssh."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "bin"


def test_one_lost_host_leaves_the_others_their_word(folder: Path, tmp_path: Path, port: int) -> None:
    """The Edge answers through a forward; a host without a known key is its own trouble only."""
    fake_ssh.install(folder, {"gx10.test": "unknown-key", "onexplayer.test": "ok", "mac.test": "ok"})
    ports = {"control": port, "openai": port, "nodes": 1, "admin": port}
    there = remote(ROOT, ports, python="/nonexistent/python3", root=str(tmp_path / "srv"))
    forwards = Forwards(there, patience=60)
    try:
        found = gather(there, forwards, deep=True)
    finally:
        forwards.close()

    assert found.edge["edge"]["id"] == "edge-lab"
    assert found.edge_trouble == ""
    assert found.control_trouble == "the Control Plane does not reach edge-lab"
    troubles = {one.host.name: one.trouble.kind for one in found.hosts if one.trouble}
    assert troubles == {"gx10": "unknown_key", "onexplayer": "other", "mac": "other"}
    assert list(found.nodes) == [f"{name}-node" for name in NAMES]


def test_no_way_to_the_edge_is_a_trouble_of_its_own(folder: Path, tmp_path: Path) -> None:
    """Nothing is raised: what is known is told."""
    fake_ssh.install(folder, {f"{name}.test": "denied" for name in NAMES})
    there = remote(tmp_path)

    found = gather(there, Forwards(there, patience=60))

    assert found.forward_trouble is not None
    assert found.forward_trouble.kind == "denied"
    assert found.edge == {}
    assert all(one.trouble is not None for one in found.hosts)


def test_a_closed_port_behind_a_forward_is_named(folder: Path, tmp_path: Path) -> None:
    """Edge and Control Plane are down, their host is not."""
    fake_ssh.install(folder, {f"{name}.test": "ok" for name in NAMES})
    there = remote(tmp_path, {"control": 1, "openai": 2, "nodes": 3, "admin": 4}, python=sys.executable)
    forwards = Forwards(there, patience=60)
    try:
        found = gather(there, forwards)
    finally:
        forwards.close()

    assert found.edge_trouble == "nothing listens on 127.0.0.1:4 of mac"
    assert found.control_trouble == "nothing listens on 127.0.0.1:1 of mac"
    assert found.forward_trouble is None


def test_only_ports_that_are_wanted_and_not_held_are_asked_about(tmp_path: Path) -> None:
    """Running services hold theirs; others' engines hold theirs rightly; the node link listens for the nodes."""
    there = remote(tmp_path)
    mac = there.host("mac")
    bare = HostFacts(mac)
    assert wanted_ports(there, mac, bare) == [
        "127.0.0.1:8002", "127.0.0.1:18001", "127.0.0.1:18083", "0.0.0.0:18084", "127.0.0.1:19093",
    ]  # fmt: skip
    running = HostFacts(
        mac,
        current=RELEASE,
        services=(
            {"name": "mac.edge", "state": "running", "port": 19093},
            {"name": "mac.control", "state": "running", "port": 18001},
            {"name": "mac-p.engine", "state": "stopped", "port": 8002},
        ),
    )
    assert wanted_ports(there, mac, running) == ["127.0.0.1:8002"]
    assert wanted_ports(there.model_copy(update={"engine_kind": "external"}), mac, running) == []
    assert wanted_ports(there, there.host("gx10"), HostFacts(there.host("gx10"))) == ["127.0.0.1:8002"]
