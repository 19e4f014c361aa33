"""iop.admin.forwards: the addresses of a remote Edge and Control Plane on this machine."""

import os
from pathlib import Path

import httpx
import pytest

from iop.admin.client import AdminClient, AdminUnreachable
from iop.admin.forwards import Forwards
from iop.admin.ssh_trouble import SshTrouble
from tests.fakes import fake_ssh
from tests.fakes.remote_inventory import NAMES, remote
from tests.fakes.smoke_story import inventory


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of PATH for the scripted ssh."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "bin"


def _hosts(folder: Path, behaviour: str) -> None:
    fake_ssh.install(folder, {f"{name}.test": behaviour for name in NAMES})


def test_on_loopback_nothing_is_started(folder: Path, tmp_path: Path) -> None:
    """The addresses are the inventory's own, and a failure keeps its words."""
    _hosts(folder, "denied")
    here = inventory(tmp_path, admin=19093, openai=18083, control=18001)
    forwards = Forwards(here)
    with forwards as urls:
        assert urls.admin == here.admin_url
        assert (urls.openai, urls.control) == (here.openai_url, here.control_url)
        assert forwards.explain("admin", "as it was") == "as it was"
    assert fake_ssh.calls(folder) == []


def test_one_ssh_carries_the_ports_of_one_host(folder: Path, tmp_path: Path) -> None:
    """Edge and Control Plane on one host are one login; the addresses are loopback ones of this machine."""
    _hosts(folder, "ok")
    forwards = Forwards(remote(tmp_path), patience=60)
    with forwards as urls:
        (call,) = fake_ssh.calls(folder)
        targets = [one.split(":", 2)[2] for one in call if one.startswith("127.0.0.1:") and one.count(":") == 3]
        assert targets == ["127.0.0.1:18083", "127.0.0.1:19093", "127.0.0.1:18001"]
        assert urls.openai.endswith("/v1")
        assert len({urls.openai, urls.admin, urls.control}) == 3
        assert forwards.open() == urls  # it stands: nothing new is started
        assert len(fake_ssh.calls(folder)) == 1


def test_a_control_plane_elsewhere_has_a_login_of_its_own(folder: Path, tmp_path: Path) -> None:
    """Two hosts, two ssh processes."""
    _hosts(folder, "ok")
    with Forwards(remote(tmp_path).model_copy(update={"control_host": "gx10"}), patience=60):
        assert [call[-1] for call in fake_ssh.calls(folder)] == ["mac.test", "gx10.test"]


def test_a_closed_port_is_told_by_host_and_port(folder: Path, tmp_path: Path) -> None:
    """What the client saw was a cut connection; the reason is that nothing listens there."""
    _hosts(folder, "ok")
    ports = {"control": 1, "openai": 2, "nodes": 3, "admin": 4}
    forwards = Forwards(remote(tmp_path, ports), patience=60)
    with forwards as urls, AdminClient(urls.admin, timeout=30) as client:
        with pytest.raises(AdminUnreachable) as caught:
            client.status()
        assert forwards.explain("admin", caught.value) == "nothing listens on 127.0.0.1:4 of mac"


def test_a_host_that_cannot_be_reached_is_a_trouble(folder: Path, tmp_path: Path) -> None:
    """Nothing is left running, and the next `open` tries again."""
    _hosts(folder, "unknown-key")
    forwards = Forwards(remote(tmp_path), patience=60)
    with pytest.raises(SshTrouble, match="host key of mac"):
        forwards.open()
    _hosts(folder, "ok")
    assert forwards.open().admin.startswith("http://127.0.0.1:")
    forwards.close()


def test_forwards_that_were_lost_are_made_anew(folder: Path, tmp_path: Path) -> None:
    """After a loss `open` gives addresses that work."""
    _hosts(folder, "ends")
    forwards = Forwards(remote(tmp_path), patience=60)
    first = forwards.open()
    child = forwards._tunnels[0]._child
    assert child is not None
    child.wait(30)
    with pytest.raises(httpx.ConnectError):
        httpx.get(first.admin, trust_env=False)
    _hosts(folder, "ok")
    assert forwards.open() != first
    forwards.close()


def test_a_host_that_is_this_machine_needs_no_login(folder: Path, tmp_path: Path) -> None:
    """A real Edge on the machine that deploys is asked at its own ports."""
    _hosts(folder, "denied")
    there = remote(tmp_path)
    own = [host.model_copy(update={"reached_by": "local"}) if host.name == "mac" else host for host in there.hosts]
    with Forwards(there.model_copy(update={"hosts": tuple(own)})) as urls:
        assert (urls.admin, urls.openai) == ("http://127.0.0.1:19093", "http://127.0.0.1:18083/v1")
    assert fake_ssh.calls(folder) == []
