"""iop_release.stage: a built release on a host."""

import errno
import grp
import os
import shutil
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from iop_release import bundle
from iop_release import stage as module
from iop_release.errors import ReleaseError
from iop_release.layout import HostRoot
from iop_release.manifest import Manifest, sha256
from iop_release.stage import is_staged, stage
from iop_release.targets import Target

HERE = Target.here()


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A built release with its wheel and a wheelhouse."""
    folder = tmp_path / "dist"
    (folder / HERE.wheelhouse).mkdir(parents=True)
    files = ("w.whl", HERE.lock, f"{HERE.wheelhouse}/pip-1-py3-none-any.whl")
    for name in files:
        (folder / name).write_text(name, encoding="utf-8")
    hashes = {name: sha256(folder / name) for name in files}
    Manifest("r1", "c" * 40, "0.1.0", "w.whl", (HERE.name,), hashes).save(folder)
    return folder


def _zip(dist: Path, root: HostRoot) -> Path:
    """The release as it arrives on a host, with a wheelhouse for another Python in it."""
    path = root.incoming / "r1.zip"
    content: dict[str, Path | bytes] = {
        one.relative_to(dist).as_posix(): one for one in dist.rglob("*") if one.is_file()
    }
    bundle.pack(path, {**content, "wheelhouse-other/pip.whl": b"other"})
    return path


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that staging runs, instead of running them."""
    seen: list[list[str]] = []

    def run(command: Sequence[str], *, env: Mapping[str, str]) -> str:
        assert "PIP_INDEX_URL" not in env
        assert "PYTHONPATH" not in env
        seen.append(list(command))
        return ""

    monkeypatch.setenv("PIP_INDEX_URL", "http://index.invalid")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setattr(module, "run", run)
    return seen


def test_staging_is_offline_and_done_once(tmp_path: Path, dist: Path, commands: list[list[str]]) -> None:
    """The venv is made at its final path, pip never asks an index, and a staged release is not touched again."""
    root = HostRoot(tmp_path / "host")

    assert stage(root, dist)
    made = list(commands)
    assert not stage(root, dist)

    assert commands == made
    assert made[0][-1] == str(root.release("r1") / "venv")
    assert all("--no-index" in command for command in made if "install" in command)
    assert "--require-hashes" in made[1]
    wanted = (root.release("r1") / "wanted.txt").read_text(encoding="utf-8")
    assert wanted == f"{(dist / 'w.whl').as_uri()} --hash=sha256:{sha256(dist / 'w.whl')}\n{HERE.lock}"
    assert root.is_staged("r1")


def test_an_interrupted_stage_is_done_again(
    tmp_path: Path, dist: Path, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the mark of completeness the folder is thrown away and made anew."""
    root = HostRoot(tmp_path / "host")

    def fail(command: Sequence[str], *, env: Mapping[str, str]) -> str:
        raise ReleaseError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(module, "run", fail)
        with pytest.raises(ReleaseError, match="disk full"):
            stage(root, dist)
    assert not root.release("r1").exists()
    left = root.release("r1") / "left-over"  # of a process that was killed
    left.parent.mkdir()
    left.touch()

    assert not root.is_staged("r1")
    assert stage(root, dist)
    assert not left.exists()


def test_a_damaged_release_is_not_staged(tmp_path: Path, dist: Path, commands: list[list[str]]) -> None:
    """A wheel that is not the built one stops before anything is made."""
    (dist / "w.whl").write_text("damaged", encoding="utf-8")

    with pytest.raises(ReleaseError, match="not the file that was built"):
        stage(HostRoot(tmp_path / "host"), dist)
    assert not list((tmp_path / "host" / "releases").iterdir())
    assert commands == []


def test_a_zip_is_unpacked_verified_and_gone(tmp_path: Path, dist: Path, commands: list[list[str]]) -> None:
    """Only this host's files come out of it; when it has served, nothing of it is left in `incoming/`."""
    root = HostRoot(tmp_path / "host")
    path = _zip(dist, root)
    assert not is_staged(root, path, None)

    assert stage(root, path)

    house = commands[1][commands[1].index("--find-links") + 1]
    assert house == str(root.incoming / "r1.unpacked" / HERE.wheelhouse)
    assert list(root.incoming.iterdir()) == []
    assert Manifest.load(root.release("r1")).release_id == "r1"
    assert is_staged(root, path, "r1")
    assert not is_staged(root, path, None)


def test_a_damaged_zip_is_not_staged(tmp_path: Path, dist: Path, commands: list[list[str]]) -> None:
    """A wheel in it that is not the built one stops before anything is made."""
    root = HostRoot(tmp_path / "host")
    (dist / "w.whl").write_text("damaged", encoding="utf-8")

    with pytest.raises(ReleaseError, match=r"w\.whl in .* is not the file that was built"):
        stage(root, _zip(dist, root))
    assert (commands, root.staged(), list(root.releases.iterdir())) == ([], [], [])


def test_a_release_for_other_hosts_is_refused(tmp_path: Path, dist: Path, commands: list[list[str]]) -> None:
    """The error names this platform and Python, and those that the release was built for."""
    replace(Manifest.load(dist), targets=("linux-arm64-py3.99",)).save(dist)

    with pytest.raises(ReleaseError, match=rf"{HERE.platform} with Python {HERE.minor}.*linux-arm64 with Python 3\.99"):
        stage(HostRoot(tmp_path / "host"), dist)
    assert not (tmp_path / "host").exists()


def test_too_little_space_is_told_before(
    tmp_path: Path, dist: Path, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folder, free and needed bytes are named, and nothing was begun."""
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - the shape of shutil's own
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(9, 9, 7))
    needed = 5 * sum((dist / name).stat().st_size for name in Manifest.load(dist).files)

    with pytest.raises(ReleaseError, match=rf"7 bytes .*{tmp_path}/host/releases; this release needs {needed} bytes"):
        stage(HostRoot(tmp_path / "host"), dist)
    assert commands == []


@pytest.mark.parametrize(
    "problem",
    [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x"), ReleaseError("pip … failed:\nNo space left on device")],
)
def test_a_disk_that_fills_up_leaves_no_half(
    tmp_path: Path, dist: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    """Whoever hits it, Python or pip: the folder and the bytes are named, and the next stage begins anew."""
    root = HostRoot(tmp_path / "host")

    def full(command: Sequence[str], *, env: Mapping[str, str]) -> str:
        (root.release("r1") / "half").touch()
        raise problem

    monkeypatch.setattr(module, "run", full)

    with pytest.raises(ReleaseError, match=rf"no space left in {root.releases} .* needed\n  free some space"):
        stage(root, dist)
    assert not root.release("r1").exists()


def test_a_group_may_read_it(tmp_path: Path, dist: Path, commands: list[list[str]]) -> None:
    """Folders 0750, files by the same rule; tokens stay the owner's. Without a group all is private."""
    group = grp.getgrgid(os.getgid()).gr_name
    shared, private = HostRoot(tmp_path / "shared"), HostRoot(tmp_path / "private")

    stage(shared, dist, group=group)
    stage(private, dist)

    modes = {name: (shared.path / name).stat().st_mode & 0o777 for name in (".", "releases/r1", "shared/tokens")}
    assert modes == {".": 0o750, "releases/r1": 0o750, "shared/tokens": 0o700}
    assert (shared.release("r1") / "manifest.json").stat().st_mode & 0o777 == 0o640
    assert private.release("r1").stat().st_mode & 0o777 == 0o700
    with pytest.raises(ReleaseError, match=r"(?s)cannot be given to the group no-such-group.*bootstrap\.yml"):
        stage(HostRoot(tmp_path / "third"), dist, group="no-such-group")
