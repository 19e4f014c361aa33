"""iop_release.activate: from what runs to what should run, by facts."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from iop_release import processes
from iop_release.activate import activate, mark, plan, records
from iop_release.errors import ReleaseError
from iop_release.layout import COMPLETE, HostRoot
from iop_release.services.contract import Running, Service
from tests.fakes.service_manager import FakeManager

ME = processes.read(os.getpid())
assert ME is not None
FIRST = Service("mac.edge", ("program", *ME.argv[1:]), priority=300)  # its arguments are those of this very process
SECOND = Service("mac.node", ("program", *ME.argv[1:]), priority=400)


@pytest.fixture
def root(tmp_path: Path) -> HostRoot:
    """A host root with two staged releases."""
    root = HostRoot(tmp_path)
    root.prepare()
    for name in ("r1", "r2"):
        root.release(name).mkdir()
        (root.release(name) / COMPLETE).touch()
    return root


def _actions(root: HostRoot, release: str, manager: FakeManager, *services: Service) -> list[str]:
    return [step.action for step in plan(root, release, services or (FIRST,), manager).steps]


def test_first_start_then_nothing(root: HostRoot) -> None:
    """The first activation starts by priority; the second finds everything as wanted and changes nothing."""
    manager = FakeManager(os.getpid())

    done = activate(root, "r1", [SECOND, FIRST], manager)
    again = activate(root, "r1", [SECOND, FIRST], manager)

    assert (done.changed, done.switch, root.pointer("current")) == (True, True, "r1")
    assert [call for call in manager.calls if call.startswith("start")] == ["start mac.edge", "start mac.node"]
    assert (again.changed, [step.action for step in again.steps]) == (False, ["none", "none"])
    assert records(root)["mac.edge"]["release"] == "r1"


def test_another_release_restarts_and_keeps_the_previous(root: HostRoot) -> None:
    """Stopped in reverse order, switched, started in order."""
    manager = FakeManager(os.getpid())
    activate(root, "r1", [FIRST, SECOND], manager)
    manager.calls.clear()

    done = activate(root, "r2", [FIRST, SECOND], manager)

    assert manager.calls == ["ensure", "stop mac.node", "stop mac.edge", "start mac.edge", "start mac.node"]
    assert [step.reason for step in done.steps] == ["runs release r1"] * 2
    assert (root.pointer("current"), root.pointer("previous")) == ("r2", "r1")


def test_a_service_with_listeners_is_replaced_by_its_start(root: HostRoot) -> None:
    """No `stop` comes before its `start`, so that its sockets never close; the others are stopped as ever."""
    manager = FakeManager(os.getpid())
    held = replace(FIRST, listeners={"openai": "127.0.0.1:18083"})
    activate(root, "r1", [held, SECOND], manager)
    manager.calls.clear()

    activate(root, "r2", [held, SECOND], manager)

    assert manager.calls == ["ensure", "stop mac.node", "start mac.edge", "start mac.node"]


def test_a_lasting_service_goes_on_from_its_own_release(root: HostRoot) -> None:
    """A new release leaves it alone; a new definition or a wish starts it from the new one."""
    manager = FakeManager(os.getpid())
    lasting = replace(FIRST, lasting=True, env={"HOME_OF_IT": "{release}"})
    activate(root, "r1", [lasting, SECOND], manager)
    manager.calls.clear()

    done = activate(root, "r2", [lasting, SECOND], manager)
    assert [step.action for step in done.steps] == ["none", "restart"]
    assert manager.calls == ["ensure", "stop mac.node", "start mac.node"]
    assert records(root)["mac.edge"]["release"] == "r1"
    assert _actions(root, "r2", manager, lasting) == ["none"]
    assert [step.action for step in plan(root, "r2", [lasting], manager, ["mac.edge"]).steps] == ["restart"]

    other = replace(lasting, env={"HOME_OF_IT": "{release}", "MORE": "1"})
    assert _actions(root, "r2", manager, other) == ["restart"]
    activate(root, "r2", [other], manager)
    assert records(root)["mac.edge"]["release"] == "r2"


def test_a_watched_file_restarts_its_service(root: HostRoot, tmp_path: Path) -> None:
    """A service that reads a file only at its start is restarted when the file's content changes."""
    config = tmp_path / "node.yaml"
    config.write_text("a", encoding="utf-8")
    service = Service("mac.node", FIRST.argv, watch=(str(config),))
    manager = FakeManager(os.getpid())
    activate(root, "r1", [service], manager)

    assert _actions(root, "r1", manager, service) == ["none"]
    config.write_text("b", encoding="utf-8")
    assert _actions(root, "r1", manager, service) == ["restart"]


def test_an_interrupted_activation_is_repaired(root: HostRoot) -> None:
    """A start that failed leaves no record, so the next run starts or restarts whatever is there by then."""
    manager = FakeManager(os.getpid())
    activate(root, "r1", [FIRST], manager)
    manager.broken.add("mac.edge")
    with pytest.raises(ReleaseError, match="does not stay up"):
        activate(root, "r2", [FIRST], manager)

    assert _actions(root, "r2", manager) == ["start"]
    manager.known["mac.edge"] = Running("mac.edge", "running", os.getpid())
    assert _actions(root, "r2", manager) == ["restart"]
    manager.broken.clear()
    assert activate(root, "r2", [FIRST], manager).changed
    assert _actions(root, "r2", manager) == ["none"]


def test_facts_beat_records(root: HostRoot) -> None:
    """A pid that runs other arguments, a service that stopped, and a lost record each ask for work."""
    manager = FakeManager(os.getpid())
    activate(root, "r1", [FIRST], manager)

    manager.known["mac.edge"] = Running("mac.edge", "running", os.getppid())
    assert _actions(root, "r1", manager) == ["restart"]
    manager.known["mac.edge"] = Running("mac.edge", "failed", None, "exited")
    assert _actions(root, "r1", manager) == ["start"]
    manager.known["mac.edge"] = Running("mac.edge", "running", os.getpid())
    assert _actions(root, "r1", manager) == ["none"]
    (root.shared / "run" / "mac.edge.json").write_text("{", encoding="utf-8")
    assert _actions(root, "r1", manager) == ["restart"]


def test_a_restart_can_be_asked_for(root: HostRoot) -> None:
    """A forced service is restarted although it runs as wanted; the others are not."""
    manager = FakeManager(os.getpid())
    activate(root, "r1", [FIRST, SECOND], manager)
    manager.calls.clear()

    activate(root, "r1", [FIRST, SECOND], manager, ["mac.edge"])

    assert manager.calls == ["ensure", "stop mac.edge", "start mac.edge"]


def test_an_unstaged_release_changes_nothing(root: HostRoot) -> None:
    """Planning for it works; activating it is refused before anything is stopped."""
    manager = FakeManager(os.getpid())

    assert _actions(root, "r9", manager) == ["start"]
    with pytest.raises(ReleaseError, match="not staged"):
        activate(root, "r9", [FIRST], manager)
    assert manager.calls == []


def test_what_root_has_to_do_first_is_a_finding(root: HostRoot) -> None:
    """The plan tells it with the playbook's name; an activation stops before it touches anything."""
    manager = FakeManager(os.getpid())
    manager.in_the_way = ["iop-node.service is missing"]

    told = plan(root, "r1", [FIRST], manager).as_json()
    with pytest.raises(ReleaseError, match=r"(?s)iop-node\.service is missing.*playbooks/bootstrap\.yml"):
        activate(root, "r1", [FIRST], manager)

    assert [one["message"] for one in told["findings"]] == ["iop-node.service is missing"]  # type: ignore[attr-defined]
    assert (manager.calls, root.pointer("current")) == (["ensure"], None)


def test_a_marked_service_is_restarted_by_whichever_run_comes_next(root: HostRoot) -> None:
    """The mark stands until a start has worked: the run that set it may have failed before; unknown ones take none."""
    manager = FakeManager(os.getpid())
    activate(root, "r1", [FIRST, SECOND], manager)

    mark(root, "mac.node", "node.token was replaced")
    mark(root, "nobody.node", "node.token was replaced")

    todo = plan(root, "r1", [FIRST, SECOND], manager)
    assert [(step.action, step.reason) for step in todo.steps] == [
        ("none", "runs as wanted"),
        ("restart", "node.token was replaced"),
    ]
    assert set(records(root)) == {"mac.edge", "mac.node"}
    activate(root, "r1", [FIRST, SECOND], manager)
    assert _actions(root, "r1", manager, FIRST, SECOND) == ["none", "none"]
