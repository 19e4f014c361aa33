"""iop_release.cli_releases: what the commands around a release tell."""

import json
import os
from pathlib import Path

import pytest

from iop_release import cli
from tests.fakes.git_repository import commit


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert cli.main([*map(str, arguments), "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_sync_and_build_tell_what_they_would_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Dry runs name commit and release and leave nothing behind."""
    source = tmp_path / "source"
    head = commit(source, a="1")
    home = tmp_path / "home"

    told = _run(capsys, "sync", "--source", source, "--checkout", home / "src", "--dry-run")
    foreseen = _run(capsys, "build", "--source", source, "--dist", home / "dist", "--cache", home / "c", "--dry-run")

    assert (told["commit"], told["changed"]) == (head, True)
    assert foreseen == {"changed": True, "release_id": f"{head[:7]}-unbuilt"}
    assert not home.exists()
    assert _run(capsys, "sync", "--source", source, "--checkout", home / "src")["changed"] is True


def test_the_helper_writes_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As one file, whose path and hash it tells; of those of earlier sources the newest two stay."""
    for number in range(4):
        (tmp_path / f"iop_release-{number}.pyz").touch()
        os.utime(tmp_path / f"iop_release-{number}.pyz", (number, number))

    told = _run(capsys, "helper", "--into", tmp_path)

    assert told["changed"] is True
    assert Path(str(told["path"])).name == f"iop_release-{str(told['sha256'])[:12]}.pyz"
    assert _run(capsys, "helper", "--into", tmp_path)["changed"] is False
    mine = Path(str(told["path"])).name
    assert {one.name for one in tmp_path.iterdir()} == {"iop_release-2.pyz", "iop_release-3.pyz", mine}
