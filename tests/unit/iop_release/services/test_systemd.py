"""iop_release.services.systemd: what only systemd has: units of bootstrap, sudo, sockets, start limits."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services.launcher import Launchers
from iop_release.services.systemd import Systemd, _State
from tests.fakes.service_rigs import BROKEN, SystemdRig


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SystemdRig]:
    """A host with systemd and the units of bootstrap."""
    for name in ("PATH", "FAKE_SYSTEMD"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    made = SystemdRig(tmp_path)
    yield made
    (made.state / "refuse-sudo").unlink(missing_ok=True)
    made.close()


def test_a_host_without_definitions_asks_for_bootstrap(rig: SystemdRig) -> None:
    """Never bootstrapped, a service nobody thought of, a missing unit, another text, not read again: each in words."""
    unit = rig.below / "etc" / "systemd" / "system" / "iop-node.service"
    text = unit.read_text(encoding="utf-8")
    assert rig.manager.obstacles([rig.service("gx10.node"), rig.service("gx10.edge")]) == []
    assert rig.manager.obstacles([rig.service("gx10.control")]) == [
        "no service definition was installed for gx10.control"
    ]

    unit.write_text(text.replace("RestartSec=2", "RestartSec=9"), encoding="utf-8")
    assert rig.manager.obstacles([rig.service("gx10.node")]) == [
        "/etc/systemd/system/iop-node.service differs from what this release wants"
    ]
    unit.unlink()
    assert rig.manager.obstacles([rig.service("gx10.node")]) == ["/etc/systemd/system/iop-node.service is missing"]
    rig.install(["gx10.node"])
    (rig.state / "units" / "iop-node.service").write_text("[Service]\n", encoding="utf-8")
    assert rig.manager.obstacles([rig.service("gx10.node")]) == [
        "systemd has not read iop-node.service again since it changed"
    ]
    (rig.root / "shared" / "definitions.json").unlink()
    assert "never installed" in rig.manager.obstacles([rig.service("gx10.node")])[0]


def test_sockets_of_other_addresses_ask_for_bootstrap(rig: SystemdRig) -> None:
    """The Edge would come up on the addresses of the sockets, not on those of the inventory."""
    wanted = {**rig.host(["gx10.edge"]).addresses, "nodes": "10.0.0.1:1"}
    service = replace(rig.service("gx10.edge"), listeners=wanted)

    assert "10.0.0.1:1" in rig.manager.obstacles([service])[0]
    same = replace(service, listeners=dict(rig.host(["gx10.edge"]).addresses))
    assert rig.manager.obstacles([same]) == []


def test_a_unit_that_is_not_there_names_the_playbook(rig: SystemdRig) -> None:
    """The error of a start says what is missing and who can bring it."""
    (rig.state / "units" / "iop-node.service").unlink()

    with pytest.raises(ReleaseError, match=r"(?s)iop-node\.service not found.*playbooks/bootstrap\.yml"):
        rig.manager.start(rig.service(), rig.log())
    rig.manager.stop("gx10.node")


@pytest.mark.parametrize("what", ["start", "stop"])
def test_a_refusal_of_sudo_is_said_in_words(rig: SystemdRig, what: str) -> None:
    """Sudo never asks; its refusal names the command and the playbook. Reading needs no root."""
    rig.manager.start(rig.service(), rig.log())
    (rig.state / "refuse-sudo").touch()

    ask = {
        "start": lambda: rig.manager.start(rig.service("vllm.engine"), rig.log()),
        "stop": lambda: rig.manager.stop("gx10.node"),
    }
    with pytest.raises(ReleaseError, match=r"(?s)may not run systemctl .*password is required.*bootstrap\.yml"):
        ask[what]()
    assert rig.manager.running()["gx10.node"].state == "running"


def test_the_edge_is_replaced_under_its_sockets(rig: SystemdRig) -> None:
    """A running Edge is restarted, not stopped and started; a real stop takes its sockets down in one transaction."""
    first = rig.manager.start(rig.service("gx10.edge"), rig.log())

    second = rig.manager.start(rig.service("gx10.edge", COLOUR="red"), rig.log())
    rig.manager.stop("gx10.edge")

    assert first.pid != second.pid
    sockets = "iop-edge-openai.socket iop-edge-nodes.socket iop-edge-admin.socket"
    assert rig.calls() == ["start iop-edge.service", "restart iop-edge.service", f"stop {sockets} iop-edge.service"]
    known = json.loads((rig.state / "iop-edge-nodes.socket.json").read_text(encoding="utf-8"))
    assert known["ActiveState"] == "inactive"


def test_a_unit_that_failed_too_often_starts_again(rig: SystemdRig) -> None:
    """Systemd refuses starts past its limit until that is reset; a deploy with a good release is not refused."""
    with pytest.raises(ReleaseError):
        rig.manager.start(rig.service(code=BROKEN), rig.log())
    rig.know("iop-node.service", ActiveState="failed", SubState="failed", Result="exit-code")
    (rig.state / "iop-node.service.limit").touch()

    assert rig.manager.running()["gx10.node"].detail == "failed (failed), exit-code"
    assert rig.manager.start(rig.service(), rig.log()).state == "running"


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"ActiveState": "activating", "SubState": "start", "MainPID": 1}, "failed"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "failed"),
        ({"ActiveState": "deactivating", "SubState": "stop-sigterm", "MainPID": 1}, "stopped"),
        ({"ActiveState": "reloading", "SubState": "reload", "MainPID": 1}, "running"),
        ({"ActiveState": "maintenance"}, "failed"),
    ],
)
def test_states(rig: SystemdRig, facts: dict[str, object], state: str) -> None:
    """Only what is active runs: a unit between two starts has no pid that counts."""
    Launchers(rig.root).write(rig.service())
    rig.know("iop-node.service", **facts)

    told = rig.manager.running()["gx10.node"]
    rig.know("iop-node.service")

    assert told.state == state
    assert (told.pid is not None) == (state == "running")


class _Flapping(Systemd):
    """A systemd whose engine is another process each time one looks."""

    def _state(self, unit: str) -> _State:
        self.looked = getattr(self, "looked", 0) + 1
        return _State({"ActiveState": "active", "MainPID": str(1000 + self.looked), "NRestarts": str(self.looked)})


def test_an_engine_that_restarts_in_its_first_second_failed(rig: SystemdRig) -> None:
    """An engine says nothing about readiness, so that a second process within that second is a failure."""
    manager = _Flapping(rig.root, sudo=("sudo", "-n"), installed_below=rig.below, sleep=lambda _: None)

    assert not manager._settled("iop-engine-vllm", notifies=False).up
    assert manager._settled("iop-node", notifies=True).up


def test_a_host_without_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No systemctl: the error points at the inventory."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReleaseError, match=r"(?s)systemctl is not on this host.*service_manager"):
        Systemd(tmp_path).ensure()
