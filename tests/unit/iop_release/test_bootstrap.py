"""iop_release.bootstrap: the `definitions` command."""

import io
import json
from pathlib import Path

import pytest

from iop_release import bootstrap, cli
from iop_release.services import tool

SERVICES = [{"name": "mac.edge", "argv": ["x"], "stop_wait_s": 30}, {"name": "mac.node", "argv": ["x"]}]
OPTIONS = ("--root", "/srv/iop", "--manager", "systemd", "--user", "lab", "--service-user", "iop")


def _run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, dict[str, object], str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(SERVICES)))
    code = cli.main(["definitions", *OPTIONS, *more, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err


def test_the_files_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that bootstrap loops over: folders, files with owner, mode and content, commands."""
    more = ("--address", "openai=127.0.0.1:18083", "--credential", "iop-edge=a.key", "--credential", "iop-edge=a.crt")
    code, told, _ = _run(monkeypatch, capsys, *more)
    files = {file["path"]: file for file in told["files"]}  # type: ignore[attr-defined]

    assert (code, told["changed"]) == (0, False)
    edge = files["/etc/systemd/system/iop-edge.service"]
    assert set(edge) == {"path", "mode", "owner", "group", "content"}
    assert "TimeoutStopSec=40\n" in edge["content"]
    assert "LoadCredential=a.key:/srv/iop/shared/tokens/a.key\nLoadCredential=a.crt:" in edge["content"]
    assert "/etc/systemd/system/iop-edge-openai.socket" in files
    assert told["folders"][0] == {"path": "/srv/iop", "mode": "2750", "owner": "lab", "group": "iop"}  # type: ignore[index]
    assert ["systemctl", "daemon-reload"] in told["commands_after"]  # type: ignore[operator]


def test_check_finds_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Findings name file and playbook, and the exit code is 1."""
    monkeypatch.setattr(bootstrap, "differing", lambda host: [("/etc/x", "is missing")])
    code, told, _ = _run(monkeypatch, capsys, "--check")
    assert (code, told["findings"]) == (
        1,
        [{"code": "definitions", "message": "/etc/x is missing", "hint": tool.BOOTSTRAP}],
    )


def test_install_runs_the_commands_only_after_a_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing changed, nothing run; a dry run runs nothing; a command that fails is an error in its own words."""
    ran: list[str] = []

    def call(command: list[str]) -> tool.Done:
        ran.append(command[0])
        return tool.Done(0 if command[0] != "usermod" else 6, "", "no such group")

    monkeypatch.setattr(tool, "call", call)
    monkeypatch.setattr(bootstrap, "install", lambda host, dry_run: [])
    assert _run(monkeypatch, capsys, "--install")[1] == {"changed": False, "written": [], "commands": []}
    monkeypatch.setattr(bootstrap, "install", lambda host, dry_run: ["/etc/x"])
    code, told, _ = _run(monkeypatch, capsys, "--install", "--dry-run")
    assert (code, told["changed"], told["written"], ran) == (0, True, ["/etc/x"], [])
    code, _, err = _run(monkeypatch, capsys, "--install")
    assert (code, ran) == (1, ["usermod"])
    assert "usermod -aG iop,systemd-journal lab failed with exit code 6: no such group" in err


@pytest.mark.parametrize("option", [("--address", "openai"), ("--credential", "iop-edge="), ("--address", "=x")])
def test_half_an_option_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: tuple[str, str]
) -> None:
    """NAME=VALUE is wanted, and said."""
    code, _, err = _run(monkeypatch, capsys, *option)
    assert code == 1
    assert "wants NAME=VALUE" in err


def test_names_follow_from_the_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --service-user the services run as the account that deploys, in its own group."""
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(SERVICES)))
    cli.main(["definitions", "--root", str(tmp_path), "--manager", "systemd", "--user", "lab", "--json"])
    assert "User=lab\nGroup=lab\n" in json.loads(capsys.readouterr().out)["files"][0]["content"]


def test_an_address_that_changed_stops_the_edge_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An open socket keeps its address, and systemd reads the unit anew only afterwards; on a new host nothing runs."""
    ran: list[list[str]] = []
    monkeypatch.setattr(tool, "call", lambda command: ran.append(command) or tool.Done(0, "", ""))
    monkeypatch.setattr(bootstrap, "install", lambda host, dry_run: ["/etc/systemd/system/iop-edge-nodes.socket"])
    more = ("--install", "--root", str(tmp_path), "--address", "nodes=10.0.0.1:18084")
    _run(monkeypatch, capsys, *more)
    assert [command[1] for command in ran] == ["-aG", "daemon-reload", "enable"]

    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "definitions.json").touch()
    ran.clear()
    _run(monkeypatch, capsys, *more)
    assert ran[0] == ["systemctl", "stop", "iop-edge-nodes.socket", "iop-edge.service"]
    assert [command[1] for command in ran[1:]] == ["-aG", "daemon-reload", "enable"]


def test_remove_wants_no_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Definitions, and with --purge the folder; a second time there is nothing."""
    root = tmp_path / "iop"
    (root / "shared").mkdir(parents=True)
    seen: list[tuple[str, bool]] = []

    def remove(services: object, manager: str, at: Path, *, dry_run: bool) -> list[str]:
        seen.append((manager, dry_run))
        return ["/etc/x"] if at == root and len(seen) == 1 else []

    monkeypatch.setattr(bootstrap.removal, "remove", remove)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    words = ["definitions", "--remove", "--root", str(root), "--manager", "systemd", "--user", "lab", "--json"]
    told = []
    for more in (["--dry-run"], ["--purge"], ["--purge"]):
        assert cli.main([*words, *more]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert [one["removed"] for one in told] == [["/etc/x"], [str(root / "shared"), str(root)], []]
    assert [one["changed"] for one in told] == [True, True, False]
    assert seen == [("systemd", True), ("systemd", False), ("systemd", False)]
