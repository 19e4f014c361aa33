"""Field case B62: the tree that is built equals the commit exactly, whatever somebody left in it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from iop_release.run import git
from iop_release.sync import sync
from tests.fakes.git_repository import commit


def _edited(checkout: Path) -> None:
    (checkout / "package" / "module.py").write_text("edited", encoding="utf-8")


def _shadowed(checkout: Path) -> None:
    (checkout / "package.py").write_text("shadows the package", encoding="utf-8")


def _stale(checkout: Path) -> None:
    for name in ("build/lib/old.py", "package/__pycache__/gone.cpython-311.pyc"):
        (checkout / name).parent.mkdir(parents=True)
        (checkout / name).write_text("ignored by git, taken by a build", encoding="utf-8")


def _file_for_folder(checkout: Path) -> None:
    shutil.rmtree(checkout / "package")
    (checkout / "package").write_text("a file now", encoding="utf-8")


def _folder_for_file(checkout: Path) -> None:
    (checkout / "file").unlink()
    (checkout / "file").mkdir()
    (checkout / "file" / "inside").touch()


def _on_a_branch(checkout: Path) -> None:
    commit(checkout, other="another history")
    git(checkout, "checkout", "-q", "-b", "local")


def _killed_git(checkout: Path) -> None:
    (checkout / ".git" / "index.lock").touch()
    _edited(checkout)


def _nested_repository(checkout: Path) -> None:
    commit(checkout / "nested", inside="a repository of its own")


FAULTS = (
    _edited,
    _shadowed,
    _stale,
    _file_for_folder,
    _folder_for_file,
    _on_a_branch,
    _killed_git,
    _nested_repository,
)


@pytest.mark.parametrize("spoil", FAULTS)
def test_the_tree_is_the_commit_again(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """Nothing untracked or ignored is left, HEAD is the wanted commit, and the second sync changes nothing."""
    origin, checkout = tmp_path / "origin", tmp_path / "src"
    files = {"package__module.py": "1", ".gitignore": "build/\n__pycache__/\n", "file": "text"}
    wanted = commit(origin, **files)
    sync(origin, checkout)
    spoil(checkout)

    assert sync(origin, checkout)["commit"] == wanted

    assert git(checkout, "rev-parse", "HEAD") == wanted
    assert git(checkout, "status", "--porcelain", "--ignored") == ""
    assert (checkout / "package" / "module.py").read_text(encoding="utf-8") == "1"
    assert (checkout / "file").read_text(encoding="utf-8") == "text"
    assert sync(origin, checkout)["changed"] is False


def test_a_rewritten_history_is_followed(tmp_path: Path) -> None:
    """A commit that was amended in the origin is what is built; the one before is not in the tree."""
    origin, checkout = tmp_path / "origin", tmp_path / "src"
    first = commit(origin, base="0")
    commit(origin, wrong="1")
    sync(origin, checkout)
    git(origin, "reset", "-q", "--hard", first)
    wanted = commit(origin, right="2")

    assert sync(origin, checkout)["commit"] == wanted
    assert sorted(path.name for path in checkout.iterdir()) == [".git", "base", "right"]
