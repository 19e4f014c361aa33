"""iop_release.sync: the separate build checkout."""

from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.run import git
from iop_release.sync import sync
from tests.fakes.git_repository import commit


def test_the_checkout_follows_head_and_nothing_else(tmp_path: Path) -> None:
    """Only committed files arrive, the second sync is no change, and a new commit moves it."""
    origin, checkout = tmp_path / "origin", tmp_path / "src"
    first = commit(origin, a="1")
    (origin / "a").write_text("edited", encoding="utf-8")
    (origin / "new").write_text("untracked", encoding="utf-8")

    told = sync(origin, checkout)

    assert (told["changed"], told["commit"]) == (True, first)
    assert told["uncommitted"] == [" M a", "?? new"]
    assert sorted(path.name for path in checkout.iterdir()) == [".git", "a"]
    assert (checkout / "a").read_text(encoding="utf-8") == "1"
    assert sync(origin, checkout)["changed"] is False
    second = commit(origin, a="2")
    assert sync(origin, checkout)["commit"] == second
    assert (checkout / "a").read_text(encoding="utf-8") == "2"


def test_dirt_is_swept_and_edits_are_undone(tmp_path: Path) -> None:
    """Whatever lies in the build checkout, afterwards it is the commit; ignored caches are swept without a change."""
    origin, checkout = tmp_path / "origin", tmp_path / "src"
    commit(origin, a="1", **{".gitignore": "cache\n"})
    sync(origin, checkout)
    (checkout / "cache").write_text("left by a test run", encoding="utf-8")

    assert sync(origin, checkout)["changed"] is False
    assert not (checkout / "cache").exists()
    (checkout / "a").write_text("edited", encoding="utf-8")
    (checkout / "b").write_text("stray", encoding="utf-8")
    assert sync(origin, checkout)["changed"] is True
    assert (checkout / "a").read_text(encoding="utf-8") == "1"
    assert not (checkout / "b").exists()


def test_a_dry_run_touches_nothing(tmp_path: Path) -> None:
    """It tells what would change and makes no folder."""
    origin = tmp_path / "origin"
    commit(origin, a="1")

    assert sync(origin, tmp_path / "src", dry_run=True)["changed"] is True
    assert not (tmp_path / "src").exists()


def test_a_killed_git_is_repaired(tmp_path: Path) -> None:
    """The lock file of a git that was killed does not stop the next run."""
    origin, checkout = tmp_path / "origin", tmp_path / "src"
    commit(origin, a="1")
    sync(origin, checkout)
    commit(origin, a="2")
    (checkout / ".git" / "index.lock").touch()

    assert sync(origin, checkout)["changed"] is True
    assert (checkout / "a").read_text(encoding="utf-8") == "2"


def test_a_foreign_folder_is_never_cleaned(tmp_path: Path) -> None:
    """A folder that is no checkout of ours stops the run and keeps its files."""
    origin, foreign = tmp_path / "origin", tmp_path / "src"
    commit(origin, a="1")
    foreign.mkdir()
    (foreign / "precious").touch()

    with pytest.raises(ReleaseError, match="not a checkout of ours"):
        sync(origin, foreign)
    assert (foreign / "precious").exists()


def test_the_branch_of_a_remote_is_fetched_and_deployed(tmp_path: Path) -> None:
    """`origin/main` is what that remote has now, whatever the checkout's own HEAD is; HEAD and edits stay untouched."""
    remote, origin, checkout = tmp_path / "remote", tmp_path / "origin", tmp_path / "src"
    commit(remote, a="1")
    git(remote, "branch", "-M", "main")
    git(tmp_path, "clone", "-q", str(remote), str(origin))
    own = commit(origin, a="my own work")
    newest = commit(remote, a="2")

    told = sync(origin, checkout, "origin/main")

    assert (told["commit"], told["ref"]) == (newest, "origin/main")
    assert (checkout / "a").read_text(encoding="utf-8") == "2"
    assert git(origin, "rev-parse", "HEAD") == own
    assert sync(origin, checkout, "origin/main")["changed"] is False
    assert sync(origin, checkout)["commit"] == own


def test_any_commit_of_the_checkout_is_deployed(tmp_path: Path) -> None:
    """An older commit by its short id, a tag, a branch with a slash: without leaving HEAD, and back again."""
    origin, checkout = tmp_path / "origin", tmp_path / "src"
    oldest, older, head = (commit(origin, a=text) for text in "123")
    git(origin, "tag", "v1", oldest)
    git(origin, "branch", "work/mine", older)

    for ref, wanted in ((older[:8], older), ("v1", oldest), ("work/mine", older), ("HEAD~2", oldest), ("HEAD", head)):
        assert sync(origin, checkout, ref)["commit"] == wanted, ref
        assert git(checkout, "rev-parse", "HEAD") == wanted, ref
        assert sync(origin, checkout, ref)["changed"] is False, ref
    assert (checkout / "a").read_text(encoding="utf-8") == "3"
    assert git(origin, "rev-parse", "HEAD") == head


@pytest.mark.parametrize("ref", ["nowhere", "--upload-pack=x/main", "origin/none", ""])
def test_a_ref_that_cannot_be_had_is_refused(tmp_path: Path, ref: str) -> None:
    """Neither a name that nothing has, nor an option of git, nor a branch that its remote does not have."""
    remote, origin = tmp_path / "remote", tmp_path / "origin"
    commit(remote, a="1")
    git(tmp_path, "clone", "-q", str(remote), str(origin))
    with pytest.raises(ReleaseError):
        sync(origin, tmp_path / "src", ref)
