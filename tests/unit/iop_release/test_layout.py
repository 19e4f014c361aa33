"""iop_release.layout: folders and pointers of one host."""

from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.layout import COMPLETE, HostRoot, venv_python


def _staged(root: HostRoot, *names: str) -> None:
    for name in names:
        root.release(name).mkdir(parents=True)
        (root.release(name) / COMPLETE).touch()


def test_prepare_makes_private_folders(tmp_path: Path) -> None:
    """All folders of a host root exist and are closed to others."""
    root = HostRoot(tmp_path / "mac")
    root.prepare()
    root.prepare()

    assert {path.name for path in root.shared.iterdir()} == {"run", "logs", "state", "tokens"}
    assert root.releases.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("links", [True, False])
def test_switch_keeps_the_one_before(tmp_path: Path, links: bool) -> None:
    """`current` moves to the new release, `previous` to the old one; switching to the current one is nothing.

    So with links and with files, which stand in for them on Windows.
    """
    root = HostRoot(tmp_path, links=links)
    _staged(root, "a", "b")

    assert (root.pointer("current"), root.switch("a"), root.pointer("previous")) == (None, True, None)
    assert (root.switch("b"), root.switch("b")) == (True, False)
    assert (root.pointer("current"), root.pointer("previous")) == ("b", "a")
    assert (root.path / "current" / COMPLETE).is_file() == links
    assert (root.path / "current").is_symlink() == links
    assert {path.name for path in root.path.iterdir()} == {"releases", "current", "previous"}


def test_a_half_made_release_never_becomes_previous(tmp_path: Path) -> None:
    """What is not complete is not staged, and nobody can go back to it."""
    root = HostRoot(tmp_path)
    _staged(root, "b")
    root.release("broken").mkdir()
    root.point("current", "broken")

    root.switch("b")

    assert root.staged() == ["b"]
    assert root.pointer("previous") is None


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a b"])
def test_an_id_cannot_leave_its_folder(tmp_path: Path, name: str) -> None:
    """Ids that are paths are refused."""
    with pytest.raises(ReleaseError):
        HostRoot(tmp_path).release(name)


def test_a_venv_has_its_python_in_another_place_on_windows() -> None:
    """`Scripts` there, `bin` elsewhere."""
    assert venv_python(Path("v"), windows=True) == Path("v/Scripts/python.exe")
    assert venv_python(Path("v"), windows=False) == Path("v/bin/python")
