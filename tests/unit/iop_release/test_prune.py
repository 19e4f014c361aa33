"""iop_release.prune: old releases go."""

import os
import shutil
from pathlib import Path

import pytest

from iop_release.layout import COMPLETE, HostRoot
from iop_release.prune import doomed, helpers, prune, unused


def test_current_previous_and_the_newest_stay(tmp_path: Path) -> None:
    """Kept are what the pointers name and the newest; the rest and half-made folders go, once."""
    root = HostRoot(tmp_path)
    for number, name in enumerate(("a", "b", "c", "d", "e")):
        root.release(name).mkdir(parents=True)
        mark = root.release(name) / COMPLETE
        mark.touch()
        os.utime(mark, (number, number))
    root.release("half").mkdir()
    root.switch("b")
    root.switch("a")

    assert doomed(root, 2) == ["c", "half"]
    assert prune(root, 2) == ["c", "half"]
    assert root.staged() == ["a", "b", "d", "e"]
    assert prune(root, 2) == []


def test_what_a_service_runs_from_stays(tmp_path: Path) -> None:
    """A service that lasts from release to release keeps the one that it was started from."""
    root = HostRoot(tmp_path)
    root.prepare()
    for number, name in enumerate(("a", "b", "c", "d")):
        root.release(name).mkdir(parents=True)
        mark = root.release(name) / COMPLETE
        mark.touch()
        os.utime(mark, (number, number))
    (root.shared / "run" / "x.engine.json").write_text('{"release": "a", "digest": "1"}', encoding="utf-8")

    assert doomed(root, 1) == ["b", "c"]


def test_built_releases_go_with_the_staged_ones(tmp_path: Path) -> None:
    """What was built and is not staged any more, and what was half built, is unused."""
    root, dist = HostRoot(tmp_path / "host"), tmp_path / "dist"
    root.release("a").mkdir(parents=True)
    (root.release("a") / COMPLETE).touch()
    for name in ("a", "b", ".building"):
        (dist / name).mkdir(parents=True)

    assert [folder.name for folder in unused(root, dist)] == [".building", "b"]
    assert unused(root, tmp_path / "none") == []


def test_what_was_sent_and_never_staged_goes(tmp_path: Path) -> None:
    """Zips and half-unpacked folders; the folder itself stays as it was made."""
    root = HostRoot(tmp_path)
    (root.incoming / "r0.unpacked").mkdir(parents=True)
    (root.incoming / "r0.zip").touch()

    prune(root, 3)

    assert list(root.incoming.iterdir()) == []


def test_nothing_to_prune_on_a_fresh_host(tmp_path: Path) -> None:
    """A host without releases is fine."""
    assert prune(HostRoot(tmp_path / "none"), 3) == []


def test_files_in_use_are_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that cannot be renamed stays and is not told as removed; one that cannot be emptied waits."""
    root = HostRoot(tmp_path)
    for name in ("busy", "open"):
        root.release(name).mkdir(parents=True)
    rename = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if path.name == "busy":
            raise PermissionError(13, "in use", str(path))
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        patch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
        assert prune(root, 3) == ["open"]
    assert sorted(path.name for path in root.releases.iterdir()) == [".trash", "busy"]
    assert (root.releases / ".trash" / "open").is_dir()

    assert prune(root, 3) == ["busy"]
    assert list(root.releases.iterdir()) == []
    assert doomed(root, 3) == []


def test_helpers_of_earlier_runs_go_but_the_newest_few(tmp_path: Path) -> None:
    """The one that runs counts among those that stay, however old it is; other files are nobody's business."""
    for number in range(5):
        path = tmp_path / f"iop_release-{number}.pyz"
        path.touch()
        os.utime(path, (number, number))
    (tmp_path / "hold-1.json").touch()

    assert [one.name for one in helpers(tmp_path / "iop_release-0.pyz", 3)] == [
        "iop_release-1.pyz", "iop_release-2.pyz",
    ]  # fmt: skip
    assert [one.name for one in helpers(tmp_path / "iop_release-4.pyz", 5)] == []
    assert helpers(tmp_path / "__main__.py", 0) == []
