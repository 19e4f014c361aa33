"""iop_release.services.removal: what bootstrap installed, stopped and taken away again."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services.definitions import SUDOERS
from iop_release.services.removal import installed, remove
from iop_release.services.systemd import Systemd
from tests.fakes.service_rigs import GENTLE, LaunchdRig, Rig, SystemdRig

RIGS: dict[str, type[SystemdRig] | type[LaunchdRig]] = {"systemd": SystemdRig, "launchd": LaunchdRig}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Rig]]:
    """A host of this manager, with the definitions of bootstrap; the caller is root."""
    for name in ("PATH", "FAKE_SYSTEMD", "FAKE_LAUNCHD"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setenv("FAKE_ROOT", "1")
    made: list[Rig] = []

    def one(manager: str) -> Rig:
        made.append(RIGS[manager](tmp_path))
        return made[0]

    yield one
    made[0].close()


def _files(rig: Rig) -> list[str]:
    below = rig.below  # type: ignore[attr-defined]
    return sorted(path.relative_to(below).as_posix() for path in below.rglob("*") if path.is_file())


@pytest.mark.parametrize("manager", RIGS)
def test_nothing_is_left(make: Callable[[str], Rig], manager: str) -> None:
    """A check run tells and touches nothing; the first run stops and removes all; the second finds nothing."""
    rig = make(manager)
    rig.manager.start(rig.service(code=GENTLE), rig.log())
    before = _files(rig)
    assert before

    def run(*, dry_run: bool = False) -> list[str]:
        return remove(rig.manager, manager, rig.root, rig.below, dry_run=dry_run)  # type: ignore[attr-defined]

    told = run(dry_run=True)
    assert _files(rig) == before
    assert rig.ours() != []
    assert run() == told
    assert told[0] == "stopped gx10.node"
    assert str(rig.below / SUDOERS.lstrip("/")) in told  # type: ignore[attr-defined]
    assert (_files(rig), rig.ours(), run()) == ([], [], [])
    assert not (rig.root / "shared" / "definitions.json").exists()


@pytest.mark.parametrize("manager", RIGS)
def test_definitions_are_found_without_their_description(make: Callable[[str], Rig], manager: str) -> None:
    """A purge came first, or the folder was removed by hand: units and plists tell themselves whose they are."""
    rig = make(manager)
    (rig.root / "shared" / "definitions.json").unlink()

    assert remove(rig.manager, manager, rig.root, rig.below, dry_run=False)  # type: ignore[attr-defined]
    assert _files(rig) == []


@pytest.mark.parametrize("manager", RIGS)
def test_what_belongs_to_another_folder_stays(make: Callable[[str], Rig], manager: str) -> None:
    """Definitions of the same names for another installation, the sudo rules that it needs, and foreign files."""
    rig = make(manager)
    below = rig.below  # type: ignore[attr-defined]
    folder = next(path.parent for path in below.rglob("iop-node.*"))
    (folder / "iop-something.service").write_text(f"{rig.root}/\n", encoding="utf-8")
    (folder / "iop-something.plist").write_text("no plist", encoding="utf-8")
    before = _files(rig)

    found = installed(manager, rig.root.parent / "elsewhere", below)
    assert (found.files, found.units) == ([], [])
    assert remove(rig.manager, manager, rig.root.parent / "elsewhere", below, dry_run=False) == []
    assert _files(rig) == before


def test_sockets_go_before_the_edge(make: Callable[[str], SystemdRig]) -> None:
    """A socket that is left would start the Edge again."""
    rig = make("systemd")
    remove(rig.manager, "systemd", rig.root, rig.below, dry_run=False)

    calls = (rig.state / "calls").read_text(encoding="utf-8").splitlines()
    (disable,) = (line.split() for line in calls if line.startswith("systemctl disable"))
    assert disable[2] == "--now"
    assert [one.rpartition(".")[2] for one in disable[3:]] == ["socket"] * 3 + ["service"] * 3
    assert calls.index(" ".join(disable)) < calls.index("systemctl daemon-reload")


def test_a_refusal_leaves_the_definitions(make: Callable[[str], SystemdRig], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not root is told so by the tool, and nothing is half gone."""
    rig = make("systemd")
    monkeypatch.setenv("FAKE_ROOT", "0")
    before = _files(rig)

    with pytest.raises(ReleaseError, match=r"systemctl disable --now .* failed with exit code 4"):
        remove(Systemd(rig.root, sudo=(), installed_below=rig.below), "systemd", rig.root, rig.below, dry_run=False)
    assert _files(rig) == before
