"""iop_trust.cli: one JSON object, exit codes, and never a secret."""

import json
from pathlib import Path

import pytest

from iop_trust.cli import main


def test_keep_and_rotate_tell_what_they_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Made, unchanged, replaced; nothing that is printed is the content of a file."""
    folder = tmp_path / "lab-runtime" / "trust"
    keep = ["keep", "--folder", str(folder), "--node", "gx10", "--address", "10.77.0.11", "--json"]

    assert [main([*keep, "--dry-run"]), main(keep), main(keep)] == [0, 0, 0]
    told = capsys.readouterr().out
    found = [json.loads(part + "}") for part in told.split("\n}\n") if part]
    assert [one["changed"] for one in found] == [True, True, False]
    assert Path(found[1]["token_files"]["gx10"]).is_file()

    token = (folder / "gx10.token").read_text()
    assert main(["rotate", "--folder", str(folder), "--node", "gx10"]) == 0
    assert token != (folder / "gx10.token").read_text()
    told += capsys.readouterr().out
    assert "gx10.token" in told
    for secret in (token, (folder / "gx10.token").read_text(), (folder / "edge.admin.token").read_text()):
        assert secret.strip() not in told


def test_what_is_refused_is_told_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 with the reason and the next step; 2 for a wrong command line."""
    folder = str(tmp_path / "trust")
    assert main(["rotate", "--folder", folder]) == 1
    assert "nothing to replace was named" in capsys.readouterr().err
    assert main(["rotate", "--folder", folder, "--node", "x"]) == 1
    assert "error: there is no token" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["keep"])
    assert stopped.value.code == 2
