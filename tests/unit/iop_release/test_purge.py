"""iop_release.purge: a host's folder without what deploys put there, or gone."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from iop_release import cli, purge
from iop_release.services.definitions import Host


def _host(tmp_path: Path, *, prepared: bool = True) -> Path:
    """A folder with a release, a config, a token and a log; `prepared`: by bootstrap."""
    root = tmp_path / "a b"
    for path in ("releases/r1/venv/x", "shared/run/iop-node.sh", "shared/tokens/node.token", "shared/logs/x.log"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x", encoding="utf-8")
    for name in ("state", "../incoming"):
        (root / "shared" / name).mkdir()
    (root / "shared" / "node.yaml").write_text("x", encoding="utf-8")
    (root / "current").symlink_to("releases/r1")
    (root / "previous").symlink_to("releases/gone")
    (root / "photos").mkdir()
    if prepared:
        host = Host(str(root), "systemd", "lab", "iop", "iop", {"gx10.node": 40})
        (root / "shared" / "definitions.json").write_text(json.dumps(asdict(host)), encoding="utf-8")
    return root


def _left(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def test_what_bootstrap_made_stays(tmp_path: Path) -> None:
    """The next deploy needs no root: empty folders and the description stay, and what is none of ours."""
    root = _host(tmp_path)
    before = _left(root)
    told = purge.purge(root, dry_run=True)
    assert _left(root) == before

    assert purge.purge(root) == told
    kept = ["incoming", "photos", "releases", "shared", "shared/definitions.json"]
    assert _left(root) == [*kept, *(f"shared/{name}" for name in ("logs", "run", "state", "tokens"))]
    assert (purge.purge(root).removed, told.left) == ([], [])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_what_another_account_wrote_is_told_unprivileged(tmp_path: Path) -> None:
    """The same as below, by the system's own word."""
    root = _host(tmp_path)
    (root / "shared" / "logs").chmod(0o500)
    assert purge.purge(root).left == [str(root / "shared" / "logs")]


def test_what_another_account_wrote_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs and state of the services' account: named, and no failure."""
    root = _host(tmp_path)
    logs = root / "shared" / "logs"
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != logs)

    done = purge.purge(root)
    assert done.left == [str(logs)]
    assert (logs / "x.log").is_file()
    assert not (root / "shared" / "tokens" / "node.token").exists()


def test_root_takes_the_whole_folder_but_nothing_else(tmp_path: Path) -> None:
    """A stranger's folder in it stays and is named; without one the folder goes too."""
    root = _host(tmp_path)
    assert purge.purge_all(root).left == [str(root / "photos")]
    assert _left(root) == ["photos"]
    (root / "photos").rmdir()
    (root / ".lock").touch()

    assert purge.purge_all(root, dry_run=True).removed == [str(root)]
    assert root.is_dir()
    assert purge.purge_all(root).removed == [str(root)]
    assert not root.exists()
    assert purge.purge_all(root) == purge.Purged()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A host that was never bootstrapped: everything of ours goes. One that has no folder: nothing to do."""
    root = _host(tmp_path, prepared=False)
    for changed in (True, False):
        assert cli.main(["purge", "--root", str(root), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["changed"], told["left"]) == (changed, [str(root / "photos")])
    assert _left(root) == [".lock", "photos"]
    assert (root / ".lock").stat().st_mode & 0o777 == 0o600
    assert cli.main(["purge", "--root", str(tmp_path / "nowhere"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] is False
    assert not (tmp_path / "nowhere").exists()
