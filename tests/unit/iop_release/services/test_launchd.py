"""iop_release.services.launchd: asynchronous bootouts, definitions kept in memory, refusals (B63)."""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iop_release import processes
from iop_release.errors import ReleaseError
from iop_release.services.launchd import Launchd, _Job
from tests.fakes.service_rigs import BROKEN, GENTLE, LaunchdRig


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchdRig]:
    """A Mac with launchd and the plists of bootstrap."""
    for name in ("PATH", "FAKE_LAUNCHD"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    made = LaunchdRig(tmp_path)
    yield made
    made.close()


def test_an_unchanged_plist_is_kickstarted(rig: LaunchdRig) -> None:
    """The first start loads it; a stop by signal leaves it loaded; the next start needs no bootout."""
    rig.manager.start(rig.service(code=GENTLE), rig.log())
    rig.manager.stop("gx10.node")
    rig.manager.start(rig.service(code=GENTLE, COLOUR="red"), rig.log())
    first = rig.manager.running()["gx10.node"].pid
    second = rig.manager.start(rig.service(code=GENTLE, COLOUR="blue"), rig.log()).pid

    assert first != second
    assert rig.ours() == [second]
    assert rig.calls() == [
        "bootstrap system /Library/LaunchDaemons/iop-node.plist",
        "kill SIGTERM system/iop-node",
        "kickstart system/iop-node",
        "kickstart -k system/iop-node",
    ]


def test_a_changed_plist_is_loaded_anew(rig: LaunchdRig) -> None:
    """Bootout, wait until the label is gone, bootstrap again while launchd still says 5: then it runs."""
    rig.manager.start(rig.service(), rig.log())
    rig.install(["gx10.node"], agents_home="/Users/other")

    running = rig.manager.start(rig.service(), rig.log())

    assert rig.ours() == [running.pid]
    assert b"HOME=/Users/other" in Path(f"/proc/{running.pid}/environ").read_bytes().split(b"\0")
    calls = rig.calls()[1:]
    assert calls[0] == "bootout system/iop-node"
    assert len(calls) > 2, "the first bootstrap after a bootout is refused"
    assert set(calls[1:]) == {"bootstrap system /Library/LaunchDaemons/iop-node.plist"}


def test_a_plist_that_is_refused_gives_way_to_the_one_before(rig: LaunchdRig) -> None:
    """The old definition runs again, and the error says so; without one it names the playbook."""
    rig.manager.start(rig.service(), rig.log())
    rig.install(["gx10.node"], agents_home="/Users/bad")
    (rig.state / "refuse-bootstrap").write_text("/Users/bad", encoding="utf-8")

    with pytest.raises(ReleaseError, match=r"(?s)exit code 109.*was put back.*bootstrap\.yml"):
        rig.manager.start(rig.service(), rig.log())
    assert rig.manager.running()["gx10.node"].state == "running"

    (rig.below / "var/db/iop/iop-node.plist").unlink()
    with pytest.raises(ReleaseError, match=r"(?s)does not load .*109.*bootstrap\.yml"):
        rig.manager.start(rig.service(), rig.log())


ANSWER = """
import os, signal, socket, sys
names = os.environ["LISTEN_FDNAMES"].split(":")
listener = socket.socket(fileno=3 + names.index("openai"))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
address = os.environ["NOTIFY_SOCKET"].replace("@", chr(0))
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", address)
while True:
    client, _ = listener.accept()
    client.sendall(os.environ["COLOUR"].encode())
    client.close()
"""


def test_the_edge_is_replaced_behind_a_holder(rig: LaunchdRig) -> None:
    """Its sockets stay with the holder, which launchd runs; a new release is a SIGHUP to it and nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    edge = replace(rig.service("gx10.edge", ANSWER, COLOUR="red"), listeners={"openai": address}, stop_wait_s=10)
    first = rig.manager.start(edge, rig.log("gx10.edge"))
    assert _ask(address) == b"red"

    blue = replace(edge, env={"COLOUR": "blue"})
    second = rig.manager.start(blue, rig.log("gx10.edge"))

    assert _ask(address) == b"blue"
    assert first.pid != second.pid
    assert rig.manager.running()["gx10.edge"].pid == second.pid
    assert rig.calls()[-1] == "kill SIGHUP system/iop-edge"
    assert processes.read(second.pid or 0) is not None
    rig.manager.stop("gx10.edge")
    assert rig.manager.running()["gx10.edge"].pid is None
    assert processes.read(second.pid or 0) is None
    with pytest.raises(ConnectionRefusedError):
        _ask(address)


def _ask(address: str) -> bytes:
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        return connection.recv(10)


def test_a_disabled_label_is_enabled(rig: LaunchdRig) -> None:
    """Bootstrap would refuse it with a bare number."""
    (rig.state / "disabled").write_text("iop-node iop-other", encoding="utf-8")

    assert rig.manager.start(rig.service(), rig.log()).state == "running"
    assert (rig.state / "disabled").read_text(encoding="utf-8") == "iop-other"


def test_a_refusal_of_sudo_is_said_in_words(rig: LaunchdRig) -> None:
    """The command, sudo's reason, and the playbook; what runs is still told."""
    rig.manager.start(rig.service(), rig.log())
    (rig.state / "refuse-sudo").touch()

    with pytest.raises(ReleaseError, match=r"(?s)may not run launchctl .*password is required.*bootstrap\.yml"):
        rig.manager.stop("gx10.node")
    assert rig.manager.running()["gx10.node"].state == "running"


def test_definitions_that_differ_ask_for_bootstrap(rig: LaunchdRig) -> None:
    """A plist that was changed by hand, and one that is not there."""
    plist = rig.below / "Library/LaunchDaemons/iop-node.plist"
    plist.write_text("<plist/>", encoding="utf-8")
    path = "/Library/LaunchDaemons/iop-node.plist"
    assert rig.manager.obstacles([rig.service()]) == [f"{path} differs from what this release wants"]
    plist.unlink()
    assert rig.manager.obstacles([rig.service()]) == [f"{path} is missing"]
    with pytest.raises(ReleaseError, match=r"(?s)does not load .*exit code 2.*bootstrap\.yml"):
        rig.manager.start(rig.service(), rig.log())


def test_an_old_failure_is_not_taken_for_a_new_one(rig: LaunchdRig) -> None:
    """`last exit code` of the run before stays in what launchd prints until a new one ends."""
    with pytest.raises(ReleaseError, match="last exit code 1"):
        rig.manager.start(rig.service(code=BROKEN), rig.log())
    assert rig.manager.start(rig.service(), rig.log()).state == "running"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (None, (False, None, False, "not loaded")),
        ("\tstate = running\n\tpid = 12\n\truns = 3\n", (True, 12, False, "running")),
        ("\tstate = not running\n\tlast exit code = 0\n", (True, None, False, "not running, last exit code 0")),
        (
            "\tstate = spawn scheduled\n\tlast exit code = 78: EX_CONFIG\n",
            (True, None, True, "spawn scheduled, last exit code 78: EX_CONFIG"),
        ),
        (
            "\tstate = not running\n\tlast terminating signal = Killed: 9\n",
            (True, None, True, "not running, last terminating signal Killed: 9"),
        ),
        ("\tlast exit code = (never exited)\n", (True, None, False, "unknown state, last exit code (never exited)")),
    ],
)
def test_what_launchd_prints(text: str | None, state: tuple[bool, int | None, bool, str]) -> None:
    """State, pid and how the last program ended."""
    job = _Job(text)
    assert (job.loaded, job.pid, job.failed, job.detail) == state


def test_a_host_without_launchd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No launchctl: the error points at the inventory."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReleaseError, match=r"(?s)launchctl is not on this host.*service_manager"):
        Launchd(tmp_path).ensure()
