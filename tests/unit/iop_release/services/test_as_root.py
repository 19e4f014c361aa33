"""iop_release.services.as_root: nothing that root makes in another account's folder is led elsewhere by a link."""

import os
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services import as_root

PRIVATE = as_root.Owner(os.getuid(), os.getgid(), 0o2750)


def test_a_link_that_root_made_in_a_folder_of_root_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `/etc` on macOS, or a host's folder on another disk."""
    monkeypatch.setattr(as_root, "_is_roots", lambda _: True)
    (tmp_path / "disk").mkdir()
    (tmp_path / "srv").symlink_to(tmp_path / "disk")
    as_root.make_folder(tmp_path / "srv/iop", as_root.Owner(os.getuid(), os.getgid(), 0o750))
    assert (tmp_path / "disk/iop").stat().st_mode & 0o7777 == 0o750


def test_folders_on_the_way_are_made_and_the_last_one_given_away(tmp_path: Path) -> None:
    """Only the folder that was asked for gets the mode; the same again is fine."""
    for _ in range(2):
        as_root.make_folder(tmp_path / "a/b", PRIVATE)
    assert (tmp_path / "a/b").stat().st_mode & 0o7777 == 0o2750
    assert (tmp_path / "a").stat().st_mode & 0o7777 != 0o2750


def test_what_is_no_folder_is_told(tmp_path: Path) -> None:
    """A file on the way is named, with what to do; nothing is made."""
    (tmp_path / "a").write_text("")
    with pytest.raises(ReleaseError, match=r"a is no folder\n  root follows no link"):
        as_root.write_file(tmp_path / "a/b/c", PRIVATE, b"text")


def test_a_file_is_written_whole_with_its_mode(tmp_path: Path) -> None:
    """No temporary name is left, and one that an interrupted run left does not matter."""
    (tmp_path / ".c.new").write_text("left over")
    as_root.write_file(tmp_path / "c", as_root.Owner(os.getuid(), os.getgid(), 0o640), b"text")
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert ((tmp_path / "c").read_bytes(), (tmp_path / "c").stat().st_mode & 0o777) == (b"text", 0o640)
