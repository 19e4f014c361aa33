"""iop_release.status: what a host runs."""

import os
from pathlib import Path

from iop_release.activate import activate
from iop_release.layout import COMPLETE, HostRoot
from iop_release.processes import read
from iop_release.services.contract import Service
from iop_release.status import status
from tests.fakes.service_manager import FakeManager


def test_status_joins_pointers_records_and_the_manager(tmp_path: Path) -> None:
    """Release pointers, and each service with state, pid, release, port; stopped when the manager lost it."""
    root, manager = HostRoot(tmp_path), FakeManager(os.getpid())
    root.prepare()
    root.release("r1").mkdir()
    (root.release("r1") / COMPLETE).touch()
    activate(root, "r1", [Service("mac.edge", ("x",), port=18083)], manager)

    told = status(root, manager)
    manager.known.clear()
    later = status(root, manager)

    service = {"name": "mac.edge", "state": "running", "pid": os.getpid(), "release": "r1", "port": 18083}
    assert told == {"current": "r1", "previous": None, "staged": ["r1"], "services": [service], "obstacles": []}
    assert later["services"] == [{**service, "state": "stopped", "pid": None}]


def test_a_service_whose_manager_died_is_unsupervised(tmp_path: Path) -> None:
    """The process of the record lives on although the manager knows nothing of it: it is not called stopped."""
    root, manager = HostRoot(tmp_path), FakeManager(os.getpid())
    root.prepare()
    root.release("r1").mkdir()
    (root.release("r1") / COMPLETE).touch()
    own = read(os.getpid())
    assert own is not None
    activate(root, "r1", [Service("mac.edge", own.argv, port=18083)], manager)
    manager.known.clear()

    service = status(root, manager)["services"][0]  # type: ignore[index]
    assert (service["state"], service["pid"]) == ("unsupervised", os.getpid())


def test_a_fresh_host_runs_nothing(tmp_path: Path) -> None:
    """Nothing is there, and asking makes nothing."""
    told = status(HostRoot(tmp_path / "none"), FakeManager())

    assert told == {"current": None, "previous": None, "staged": [], "services": [], "obstacles": []}


def test_what_root_has_to_do_first_is_told(tmp_path: Path) -> None:
    """The manager's own words, also before anything is deployed."""
    manager = FakeManager()
    manager.in_the_way = ["no definition was installed"]

    assert status(HostRoot(tmp_path / "none"), manager)["obstacles"] == ["no definition was installed"]
    assert not (tmp_path / "none").exists()
