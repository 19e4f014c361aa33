"""iop_release.stage: a built release on a host."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from iop_release import stage as module
from iop_release.errors import ReleaseError
from iop_release.layout import HostRoot
from iop_release.manifest import Manifest, sha256
from iop_release.stage import stage


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A built release with its wheel and a wheelhouse."""
    folder = tmp_path / "dist"
    (folder / "house").mkdir(parents=True)
    files = ("w.whl", "lock.txt", "house/pip-1-py3-none-any.whl")
    for name in files:
        (folder / name).write_text(name, encoding="utf-8")
    hashes = {name: sha256(folder / name) for name in files}
    Manifest("r1", "c" * 40, "0.1.0", "w.whl", "lock.txt", hashes["lock.txt"], "house", hashes).save(folder)
    return folder


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
    assert wanted == f"{(dist / 'w.whl').as_uri()} --hash=sha256:{sha256(dist / 'w.whl')}\nlock.txt"
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
    left = root.release("r1") / "left-over"
    left.touch()

    assert not root.is_staged("r1")
    assert stage(root, dist)
    assert not left.exists()


def test_a_damaged_release_is_not_staged(tmp_path: Path, dist: Path, commands: list[list[str]]) -> None:
    """A wheel that is not the built one stops before anything is made."""
    (dist / "w.whl").write_text("damaged", encoding="utf-8")

    with pytest.raises(ReleaseError, match="not the file that was built"):
        stage(HostRoot(tmp_path / "host"), dist)
    assert not (tmp_path / "host").exists()
