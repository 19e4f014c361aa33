"""iop_release.services.managers: one contract for every service manager, each over what acts like its system."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from iop_release import processes
from iop_release.errors import ReleaseError
from iop_release.services import managers
from iop_release.services.definitions import MANAGERS
from tests.fakes.service_rigs import BROKEN, DEAF, RIGS, Rig


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A host with this manager; nothing of it outlives the test."""
    for name in ("PATH", "FAKE_SYSTEMD", "FAKE_LAUNCHD", "FAKE_TASKS"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    made = RIGS[request.param](tmp_path)
    yield made
    made.close()


def test_a_service_lives_and_dies(rig: Rig) -> None:
    """Start, new definition, stop, remove, down: each shows in what runs, and nothing is left."""
    manager = rig.manager
    assert manager.running() == {}
    assert manager.obstacles([rig.service()]) == []
    manager.ensure()

    first = manager.start(rig.service(), rig.log())
    assert (first.name, first.state, rig.ours()) == ("gx10.node", "running", [first.pid])
    assert manager.running()["gx10.node"].pid == first.pid
    assert "hello" in rig.said()

    manager.stop("gx10.node")
    assert rig.ours() == []
    second = manager.start(rig.service(COLOUR="dark 'red' 100%"), rig.log())
    assert rig.ours() == [second.pid]
    assert second.pid != first.pid
    assert b"COLOUR=dark 'red' 100%" in Path(f"/proc/{second.pid}/environ").read_bytes().split(b"\0")

    manager.stop("gx10.node")
    manager.stop("gx10.node")
    assert manager.running()["gx10.node"].state == "stopped"
    manager.remove("gx10.node")
    assert manager.running() == {}
    assert rig.ours() == []
    manager.remove("gx10.node")
    manager.down()
    assert manager.down() == []


def test_arguments_arrive_as_they_are(rig: Rig) -> None:
    """Whatever stands in an argument, the running program shows the same arguments."""
    rig.manager.ensure()
    service = rig.service()
    odd = type(service)(service.name, (*service.argv, "a b", "it's", "100%", "$HOME", "&", "", "tail\\"), service.env)

    running = rig.manager.start(odd, rig.log())

    assert running.pid is not None
    process = processes.read(running.pid)
    assert process is not None
    assert process.argv == odd.argv


def test_several_services_do_not_mix(rig: Rig) -> None:
    """Stopping one leaves the others; `down` ends all and names them."""
    manager = rig.manager
    manager.ensure()
    pids = {name: manager.start(rig.service(name), rig.log(name)).pid for name in ("gx10.node", "vllm.engine")}

    manager.stop("gx10.node")

    assert rig.ours() == [pids["vllm.engine"]]
    assert manager.down() == [f"vllm.engine (pid {pids['vllm.engine']})"]
    assert rig.ours() == []


@pytest.mark.parametrize("name", ["gx10.node", "vllm.engine"])
def test_a_program_that_fails_tells_its_last_words(rig: Rig, name: str) -> None:
    """A program that does not stay up is not left behind, and the end of what it said is in the error."""
    manager = rig.manager
    manager.ensure()

    with pytest.raises(ReleaseError, match=rf"(?s){name} does not stay up.*no luck today"):
        manager.start(rig.service(name, BROKEN), rig.log(name))

    assert manager.running()[name].pid is None
    assert rig.ours() == []
    assert manager.start(rig.service(name), rig.log(name)).state == "running"


def test_a_program_that_ignores_the_signal_ends(rig: Rig) -> None:
    """Past the patience of the definition it is killed; `stop` returns when it is gone."""
    rig.manager.ensure()
    rig.manager.start(rig.service(code=DEAF), rig.log())

    rig.manager.stop("gx10.node")

    assert rig.ours() == []


def test_a_killed_program_is_not_shown_as_running(rig: Rig) -> None:
    """After kill -9 either a new one runs, or it is shown as down: never the old pid."""
    rig.manager.ensure()
    pid = rig.manager.start(rig.service(), rig.log()).pid
    assert pid is not None
    os.kill(pid, 9)
    while processes.read(pid) is not None:
        pass

    assert rig.manager.running()["gx10.node"].pid != pid


@pytest.mark.parametrize("name", MANAGERS)
def test_every_manager_has_a_maker(name: str, tmp_path: Path) -> None:
    """What the inventory may name can be made, without touching the system."""
    assert callable(managers.manager(name, tmp_path).running)
