"""iop_release.pairs: what a service proved itself with, and the way back to it."""

import os
from pathlib import Path

import pytest

from iop_release import pairs, processes
from iop_release.activate import activate
from iop_release.errors import ReleaseError
from iop_release.layout import COMPLETE, HostRoot
from iop_release.services.contract import Service
from tests.fakes.service_manager import FakeManager

ME = processes.read(os.getpid())
assert ME is not None
NAME = "mac.node"


@pytest.fixture
def root(tmp_path: Path) -> HostRoot:
    """A host root with three staged releases and a config."""
    root = HostRoot(tmp_path)
    root.prepare()
    for name in ("r1", "r2", "r3"):
        root.release(name).mkdir()
        (root.release(name) / COMPLETE).touch()
    (root.shared / "node.yaml").write_text("one", encoding="utf-8")
    return root


@pytest.fixture
def manager() -> FakeManager:
    """Its services have this very process's pid, so that their arguments can be read."""
    return FakeManager(os.getpid())


@pytest.fixture
def service(root: HostRoot) -> Service:
    """A node whose config is read at its start."""
    assert ME is not None
    return Service(NAME, ("program", *ME.argv[1:]), watch=(str(root.shared / "node.yaml"),))


def _config(root: HostRoot) -> Path:
    return root.shared / "node.yaml"


def test_back_to_release_and_config(root: HostRoot, manager: FakeManager, service: Service) -> None:
    """The release before and its config run again; what was never accepted is no place to go back to."""
    activate(root, "r1", [service], manager)
    assert pairs.accept(root, NAME, [_config(root)]) is True
    assert pairs.accept(root, NAME, [_config(root)]) is False
    _config(root).write_text("two", encoding="utf-8")
    activate(root, "r2", [service], manager)  # not accepted: it proved nothing

    assert pairs.good(root, NAME) == ["r1"]
    assert pairs.target(root, NAME, last_good=True) == "r1"
    foreseen, files = pairs.rollback(root, NAME, "r1", manager, dry_run=True)
    assert (foreseen.steps[0].action, files, _config(root).read_text(encoding="utf-8")) == (
        "restart",
        [str(_config(root))],
        "two",
    )
    done, _ = pairs.rollback(root, NAME, "r1", manager)

    assert (done.changed, root.pointer("current"), _config(root).read_text(encoding="utf-8")) == (True, "r1", "one")
    assert pairs.rollback(root, NAME, "r1", manager)[0].changed is False


def test_back_to_the_config_of_the_same_release(root: HostRoot, manager: FakeManager, service: Service) -> None:
    """A config that proved bad goes back to the accepted one of the same release, and the service is restarted."""
    activate(root, "r1", [service], manager)
    pairs.accept(root, NAME, [_config(root)])
    _config(root).write_text("bad", encoding="utf-8")
    activate(root, "r1", [service], manager)

    done, _ = pairs.rollback(root, NAME, pairs.target(root, NAME, last_good=True), manager)

    assert (done.steps[0].action, _config(root).read_text(encoding="utf-8")) == ("restart", "one")


def test_the_last_accepted_is_the_last_good(root: HostRoot, manager: FakeManager, service: Service) -> None:
    """Order is that of acceptance, also when an old release came back; a wish must have run well here."""
    for number, release in enumerate(("r1", "r2", "r1")):
        activate(root, release, [service], manager)
        pairs.accept(root, NAME)
        for age, name in enumerate(pairs.good(root, NAME)):  # file systems are coarser than this test is fast
            stamp = number * 10 - age
            os.utime(root.release(name) / pairs.PAIRS / f"{NAME}.json", (stamp, stamp))

    assert pairs.good(root, NAME) == ["r1", "r2"]
    assert pairs.target(root, NAME) == "r2"
    assert pairs.target(root, NAME, "r2") == "r2"
    with pytest.raises(ReleaseError, match=r"has not run well from release r3[\s\S]*good here: r1, r2"):
        pairs.target(root, NAME, "r3")


def test_further_files_are_part_of_the_pair(root: HostRoot, manager: FakeManager) -> None:
    """The Edge's live config is not watched, but belongs to the pair; a file keeps its permissions."""
    assert ME is not None
    edge, live = Service("mac.edge", ("program", *ME.argv[1:])), root.path / "edge.yaml"
    live.write_text("old", encoding="utf-8")
    live.chmod(0o640)
    activate(root, "r1", [edge], manager)
    pairs.accept(root, "mac.edge", [live])
    live.write_text("new", encoding="utf-8")

    done, files = pairs.rollback(root, "mac.edge", "r1", manager)

    assert (done.steps[0].action, files) == ("restart", [str(live)])
    assert (live.read_text(encoding="utf-8"), live.stat().st_mode & 0o777) == ("old", 0o640)


def test_nothing_to_go_back_to(root: HostRoot, manager: FakeManager, service: Service) -> None:
    """Each in words: never activated, never accepted, and a pair that cannot be read."""
    with pytest.raises(ReleaseError, match="was not activated"):
        pairs.accept(root, NAME)
    activate(root, "r1", [service], manager)
    with pytest.raises(ReleaseError, match="nothing to go back to"):
        pairs.target(root, NAME, last_good=True)
    pairs.accept(root, NAME)
    with pytest.raises(ReleaseError, match="nothing to go back to"):
        pairs.target(root, NAME)
    (root.release("r1") / pairs.PAIRS / f"{NAME}.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ReleaseError, match="no good config"):
        pairs.rollback(root, NAME, "r1", manager)


def test_tokens_that_were_replaced_since_stay_replaced(root: HostRoot, manager: FakeManager) -> None:
    """A rollback past a rotation: the old config comes back, the hash of each node's token stays as it is now."""
    assert ME is not None
    live = root.shared / "edge.yaml"
    edge = Service("mac.edge", ("program", *ME.argv[1:]), watch=(str(live),))
    text = """edge: {{id: e}}
nodes:
  - id: n1
    alias: a
    token_sha256: {one}
    adapters: {{}}
  - id: n2
    token_sha256: {two}
  - id: n3
    alias: none
queue: {{max_wait: {wait}}}
"""
    live.write_text(text.format(one="aaa1", two="bbb1", wait="1m"), encoding="utf-8")
    activate(root, "r1", [edge], manager)
    pairs.accept(root, "mac.edge", [live])
    live.write_text(text.format(one="aaa2", two="bbb1", wait="2m").replace("n2", "n9"), encoding="utf-8")
    activate(root, "r2", [edge], manager)

    pairs.rollback(root, "mac.edge", "r1", manager)

    assert live.read_text(encoding="utf-8") == text.format(one="aaa2", two="bbb1", wait="1m")
