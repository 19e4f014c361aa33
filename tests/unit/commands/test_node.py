"""The command `iop-node`."""

import json
from pathlib import Path

import pytest

from iop.commands import node as command
from iop.config.models import NodeConfig
from iop.wiring import doctor
from iop.wiring.doctor import Check


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Both exit 0 and print to stdout."""
    for option in ("--help", "--version"):
        with pytest.raises(SystemExit) as done:
            command.main([option])
        assert done.value.code == 0
    assert "iop" in capsys.readouterr().out


def test_usage_and_unreadable_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing option and a file that cannot be read exit 2."""
    with pytest.raises(SystemExit) as usage:
        command.main(["serve"])
    assert usage.value.code == 2
    assert command.main(["--config", str(tmp_path / "nope.yaml"), "serve"]) == 2
    assert "nope.yaml" in capsys.readouterr().err


def test_findings_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A config with errors exits 1 and names file, line and key on stderr; stdout stays empty."""
    path = tmp_path / "node.yaml"
    path.write_text("node: {id: n1}\nedge: {adr: '127.0.0.1:1'}\n", encoding="utf-8")
    assert command.main(["--config", str(path), "serve"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{path}:2" in err


def test_serve_gets_the_built_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A good config is served with its log options; paths count from the file's folder."""
    path = tmp_path / "node.yaml"
    path.write_text("node: {id: n1}\nedge: {addr: '127.0.0.1:1'}\n", encoding="utf-8")
    seen: list[object] = []

    def fake_serve(factory: object, *, log_level: str, log_format: str) -> int:
        assert callable(factory)
        seen.extend((factory(), log_level, log_format))
        return 0

    def fake_build(config: object, *, folder: Path, release_id: str) -> tuple[Path, str]:
        return folder, release_id

    monkeypatch.setenv("IOP_RELEASE_ID", "v7")
    monkeypatch.setattr(command, "serve", fake_serve)
    monkeypatch.setattr(command, "build_node", fake_build)
    assert command.main(["--config", str(path), "serve", "--log-format", "json"]) == 0
    assert seen == [(tmp_path, "v7"), "info", "json"]


def test_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each check is a line with its next step, or JSON; a failed one makes it exit 1, an unknown one does not."""
    path = tmp_path / "node.yaml"
    path.write_text("node: {id: n1}\nedge: {addr: '127.0.0.1:1'}\n", encoding="utf-8")
    checks = [Check("a", "ok", "fine"), Check("b", "unknown", "unseen", "look there")]

    async def examined(config: NodeConfig, folder: Path) -> list[Check]:
        assert (config.node.id, folder) == ("n1", tmp_path)
        return checks

    monkeypatch.setattr(doctor, "examine", examined)
    assert command.main(["--config", str(path), "doctor"]) == 0
    assert capsys.readouterr().out == "ok       a: fine\nunknown  b: unseen\n         next: look there\n"
    checks.append(Check("c", "failed", "bad", "fix it"))
    assert command.main(["--config", str(path), "doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert told["checks"][2] == {"name": "c", "outcome": "failed", "detail": "bad", "next": "fix it"}
    assert command.main(["--config", str(tmp_path / "none.yaml"), "doctor"]) == 2


def test_a_doctor_tells_what_is_wrong_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node.yaml that cannot be used is a failed check with its place and next step, as JSON too."""
    path = tmp_path / "node.yaml"
    path.write_text("node: {id: n1, token_file: away}\nedge: {addr: '127.0.0.1:1'}\n", encoding="utf-8")
    assert command.main(["--config", str(path), "doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    found = {check["name"]: check for check in told["checks"]}
    assert [check["name"] for check in told["checks"]] == ["account", "node.yaml", "the rest"]
    assert found["node.yaml"]["outcome"] == "failed"
    assert found["node.yaml"]["detail"].startswith(f"{path}:1: node.token_file: the token file cannot be read")
    assert found["node.yaml"]["next"].startswith("write the token there")
    assert found["the rest"]["outcome"] == "unknown"


def test_a_doctor_tells_warnings_beside_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning is no failed check: it stands on stderr, as with serve."""
    path = tmp_path / "node.yaml"
    path.write_text("node: {id: n1}\nedge: {addr: '192.0.2.1:1'}\n", encoding="utf-8")

    async def examined(_config: NodeConfig, _folder: Path) -> list[Check]:
        return [Check("a", "ok", "fine")]

    monkeypatch.setattr(doctor, "examine", examined)
    assert command.main(["--config", str(path), "doctor", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "plain_link" in err
    assert "plain_link" not in out
