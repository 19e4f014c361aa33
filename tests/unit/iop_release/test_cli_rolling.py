"""iop_release.cli_rolling: the commands that ask an Edge's admin port."""

import json
from pathlib import Path

import pytest

from iop_release import cli
from tests.fakes.admin_port import admin_port, node, provider


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert cli.main([*map(str, arguments), "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_the_admin_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each tells what it is; one that is not fulfilled ends with exit code 1 and its JSON."""
    with admin_port(tmp_path) as port:
        port.status = {"nodes": [node("a")], "provider_snapshots": [provider("pa", "a")]}
        where = ("--url", port.url, "--token-file", port.token_file, "--node", "a")

        assert _run(capsys, "node", *where)["known"] is True
        assert _run(capsys, "drain", *where, "--lease", "1h", "--wait", "1s", "--by", "operator")["idle"] is True
        assert _run(capsys, "gate", *where, "--release", "r1", "--wait", "0")["ok"] is True
        assert _run(capsys, "check", *where, "--wait", "0")["ok"] is True
        assert _run(capsys, "undrain", *where)["changed"] is True
        assert cli.main([*map(str, ("gate", *where, "--release", "r2", "--wait", "0")), "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["what"] == "gate"
        assert port.asked[0][2] == {"lease_s": 3600.0, "by": "operator", "reason": "deploy"}
        with pytest.raises(SystemExit):
            cli.main([*map(str, ("drain", *where, "--wait", "soon"))])
        assert "not a duration: 'soon'" in capsys.readouterr().err
