"""iop_release.services.held: what is told of a worker behind a holder."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iop_release import processes
from iop_release.errors import ReleaseError
from iop_release.services import held as held_module
from iop_release.services.contract import Running, Service
from iop_release.services.held import Held
from iop_release.services.launcher import Launchers

SERVICE = Service(
    "mac.edge",
    ("/r/1/bin/python", "-m", "edge"),
    {"IOP_RELEASE_ID": "1"},
    watch=("/c",),
    listeners={"openai": "127.0.0.1:18083", "nodes": "[::1]:18084"},
)
ME = Running("mac.edge", "running", os.getpid())
GOOD = {"holder": os.getpid(), "worker": 42, "number": 1, "ready": True, "ends": 0, "last_end": None}


@pytest.fixture
def held(tmp_path: Path) -> Held:
    """The holder of a service in a folder of its own."""
    return Held("mac.edge", tmp_path / "held", Launchers(tmp_path), tmp_path, "/usr/bin/python3")


def _write(held: Held, **changes: Any) -> None:
    held.folder.mkdir(exist_ok=True)
    (held.folder / "mac.edge.json").write_text(json.dumps({**GOOD, **changes}), encoding="utf-8")


def test_the_program_is_the_same_for_each_release(held: Held) -> None:
    """Another release changes the launcher alone; another address, or another holder, is another program."""
    program = held.program(SERVICE)
    other_release = replace(SERVICE, argv=("/r/2/bin/python", "-m", "edge"), env={"IOP_RELEASE_ID": "2"}, watch=())
    moved = replace(SERVICE, listeners={"openai": "127.0.0.1:1"})

    assert held.program(other_release) == program
    assert held.program(moved) != program
    assert (program.env, program.listeners, program.stop_wait_s) == ({}, {}, 60)
    assert f"{processes.HOLDER}{held.home}" in program.argv
    assert program.argv[-7:] == (
        "40", "--listen", "openai=127.0.0.1:18083", "--listen", "nodes=[::1]:18084", "--",
        str(held.home / "shared" / "run" / "iop-edge.sh"),
    )  # fmt: skip


def test_a_copy_is_installed_and_older_ones_go(held: Held) -> None:
    """The program names a file that is there, with what this release brought; nothing else of a holder stays."""
    held.folder.mkdir()
    (held.folder / "holder-000000000000.py").write_text("old", encoding="utf-8")
    held.install(SERVICE)
    copies = list(held.folder.glob("holder-*.py"))

    assert [str(copy) for copy in copies] == [part for part in held.program(SERVICE).argv if part.endswith(".py")]
    assert "def main(" in copies[0].read_text(encoding="utf-8")
    assert "exec /r/1/bin/python -m edge" in held.launchers.path("mac.edge").read_text(encoding="utf-8")


def test_the_worker_is_the_service(held: Held) -> None:
    """Its process id and whether it is up; a worker that ended is told; what is no holder passes as it is."""
    assert held.running(ME) is ME
    _write(held)
    assert held.running(ME) == Running("mac.edge", "running", 42, "running")
    _write(held, ready=False)
    assert held.running(ME).detail == "starting"
    _write(held, worker=None, last_end="exit code 1")
    assert held.running(ME) == Running("mac.edge", "failed", None, "its program ended with exit code 1")
    _write(held, holder=1)  # another process than the manager's
    assert held.running(ME) is ME
    stopped = Running("mac.edge", "stopped")
    assert held.running(stopped) is stopped


def test_a_state_without_its_holder_is_none(held: Held) -> None:
    """Nothing written, half a file, or a process that is gone."""
    assert held.state() is None
    _write(held, holder=2**22 + 1)
    assert held.state() is None
    (held.folder / "mac.edge.json").write_text("{", encoding="utf-8")
    assert held.state() is None


def test_waiting_for_a_worker(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later one that is ready is the answer; one that ended, or is not ready in time, is an error with the log."""
    _write(held)
    assert held.wait(ME, None, str).pid == 42
    before = held.state()
    _write(held, number=2, worker=43)
    assert held.wait(ME, before, str).pid == 43
    _write(held, number=2, worker=None, ready=False, ends=1, last_end="exit code 1")
    with pytest.raises(ReleaseError, match=r"mac\.edge does not stay up \(exit code 1\); the log"):
        held.wait(ME, before, lambda: "the log")
    monkeypatch.setattr(held_module, "READY_WITHIN", 0.0)
    _write(held, number=2, ready=False)
    with pytest.raises(ReleaseError, match="is not ready after 0 s; the log"):
        held.wait(ME, before, lambda: "the log")
    monkeypatch.setattr(held_module, "REPLACED_WITHIN", 0.0)
    _write(held)  # the old one does not end
    with pytest.raises(ReleaseError, match="is not ready"):
        held.wait(ME, before, lambda: "the log")
