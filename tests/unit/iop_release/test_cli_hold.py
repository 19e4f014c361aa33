"""iop_release.cli_hold: a run's hold of a host by its commands."""

import json
from pathlib import Path

import pytest

from iop_release import cli

ME = ("--holder", "anna@laptop:/iop", "--key", "k1")


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert cli.main([*map(str, arguments), "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_hold_and_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What it tells ends the hold; another checkout is refused with exit code 1 until then, or takes over."""
    monkeypatch.setenv("HOME", str(tmp_path))
    root = ("--root", tmp_path / "root")
    told = _run(capsys, "hold", *root, "--run-id", "r1", *ME)
    assert (told["what"], told["changed"], told["before"]) == ("hold", False, None)
    end = told["let_go"]
    assert isinstance(end, dict)

    other = ["hold", *map(str, root), "--run-id", "r2", "--holder", "ben", "--key", "k2", "--longest", "30m"]
    assert cli.main(other) == 1
    assert "anna@laptop:/iop is at work on this host (run r1" in capsys.readouterr().err
    assert _run(capsys, *other, "--over")["before"] == "r1"
    assert _run(capsys, *end["arguments"])["ended"] is False
    assert _run(capsys, "let-go", *root, "--run-id", "r2")["ended"] is True
    assert list((tmp_path / ".cache" / "iop").iterdir()) == []
