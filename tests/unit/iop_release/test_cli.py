"""iop_release.cli: one JSON object per command, exit codes, the environment's lock."""

import fcntl
import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from iop_release import cli
from iop_release.layout import COMPLETE, HostRoot
from tests.fakes.service_manager import FakeManager


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """The umask of before, whatever a command set."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> FakeManager:
    """The commands' service manager."""
    fake = FakeManager(os.getpid())
    monkeypatch.setattr(cli, "_manager", lambda options: fake)
    return fake


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert cli.main([*map(str, arguments), "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_activate_plan_status_down(
    tmp_path: Path, manager: FakeManager, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Services come on standard input; plan changes nothing; activate runs them; down stops them."""
    home, root = tmp_path / "home", HostRoot(tmp_path / "home" / "hosts" / "mac")
    root.prepare()
    root.release("r1").mkdir()
    (root.release("r1") / COMPLETE).touch()
    services = json.dumps([{"name": "mac.edge", "argv": ["x"]}])
    where = ("--root", root.path, "--home", home)

    monkeypatch.setattr("sys.stdin", io.StringIO(services))
    assert _run(capsys, "plan", *where, "--release", "r1")["changed"] is True
    assert manager.calls == []
    monkeypatch.setattr("sys.stdin", io.StringIO(services))
    os.umask(0o002)
    assert _run(capsys, "activate", *where, "--release", "r1")["changed"] is True
    mine = [home / ".lock", root.shared / "run" / "mac.edge.json"]
    assert [path.stat().st_mode & 0o022 for path in mine] == [0, 0]  # the services' group must not write them
    assert _run(capsys, "status", *where)["current"] == "r1"
    assert _run(capsys, "prune", "--root", root.path)["changed"] is False
    some = ("remove", *where, "--service", "mac.edge", "--service", "never.there")
    assert _run(capsys, *some, "--dry-run") == {"changed": True, "removed": ["mac.edge"]}
    assert "mac.edge" in manager.known
    assert _run(capsys, *some) == {"changed": True, "removed": ["mac.edge"]}
    assert _run(capsys, *some) == {"changed": False, "removed": []}
    assert _run(capsys, "status", *where)["services"] == []
    monkeypatch.setattr("sys.stdin", io.StringIO(services))
    assert _run(capsys, "activate", *where, "--release", "r1")["changed"] is True
    assert _run(capsys, "down", "--home", home) == {"changed": True, "ended": ["mac.edge"]}
    assert _run(capsys, "down", "--home", home)["changed"] is False


def test_findings_and_errors_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Findings are on stdout, errors in words on stderr; both exit 1. No command is a usage error."""
    code = cli.main(["stage", "--root", str(tmp_path / "host"), "--dist", str(tmp_path / "none")])
    assert code == 1
    assert "error: no usable manifest.json" in capsys.readouterr().err
    assert cli.main(["preflight", "--home", str(tmp_path)]) == 0
    with pytest.raises(SystemExit) as stopped:
        cli.main([])
    assert stopped.value.code == 2


@pytest.mark.parametrize("text", ["", "{", '[{"name": "x"}]', '[{"name": "x", "argv": [], "colour": 1}]'])
def test_unusable_services_are_refused(
    tmp_path: Path,
    manager: FakeManager,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is no list of services stops the command before anything happens."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))

    assert cli.main(["activate", "--root", str(tmp_path), "--home", str(tmp_path), "--release", "r1"]) == 1
    assert "error:" in capsys.readouterr().err
    assert manager.calls == []


def test_two_hosts_of_one_environment_take_turns(
    tmp_path: Path, manager: FakeManager, capsys: pytest.CaptureFixture[str]
) -> None:
    """While another command holds the environment's lock, this one waits."""
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=cli.main, args=(["down", "--home", str(tmp_path)],))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join(20)
    assert not thread.is_alive()


def test_put_and_ask(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file comes on standard input or from another file; a URL where nothing answers is no failure."""
    first, second = tmp_path / "candidate.yaml", tmp_path / "live.yaml"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("ä: 1\n".encode())))
    assert _run(capsys, "put", "--path", first) == {"changed": True, "written": [str(first)]}
    dry = _run(capsys, "put", "--source", first, "--path", second, "--diff", "--dry-run")
    assert dry["diff"] == [{"before": "", "after": "ä: 1\n", "before_header": str(second), "after_header": str(second)}]
    assert not second.exists()
    assert _run(capsys, "put", "--source", first, "--path", second)["written"] == [str(second)]
    assert cli.main(["put", "--source", str(tmp_path / "none"), "--path", str(second)]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert _run(capsys, "ask", "--url", "nothing")["status"] == 0


def test_a_secret_is_written_and_never_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither with --diff nor in plain words; and it is for its owner alone, whatever mode is asked for."""
    path = tmp_path / "tokens" / "node.token"
    put = ["put", "--secret", "--diff", "--path", str(path)]
    for content, changed in (("canary-1\n", True), ("canary-1\n", False), ("canary-2\n", True)):
        for options in (["--dry-run"], []):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
            assert cli.main([*put, *options]) == 0
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        assert _run(capsys_drained(capsys), *put)["changed"] is False
        assert (path.read_text(), path.stat().st_mode & 0o777) == (content, 0o600), changed
    assert cli.main([*put, "--mode", "0644"]) == 1
    assert "a secret is for its owner alone: not with --mode 0644" in capsys.readouterr().err


@pytest.mark.parametrize("mode", ["9", "0400", "1600", "rw"])
def test_a_mode_is_octal_and_leaves_the_owner_his_file(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is none is a usage error."""
    with pytest.raises(SystemExit):
        cli.main(["put", "--path", str(tmp_path / "x"), "--mode", mode])
    assert "--mode" in capsys.readouterr().err


def capsys_drained(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    """The capture, after what was printed so far was looked at."""
    told = capsys.readouterr()
    assert "canary" not in told.out + told.err
    return capsys


def test_accept_and_rollback(
    tmp_path: Path, manager: FakeManager, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was accepted is foreseen, then done; the answer has the form of an activation's."""
    home, root = tmp_path / "home", HostRoot(tmp_path / "home" / "hosts" / "mac")
    root.prepare()
    where = ("--root", root.path, "--home", home)
    for release in ("r1", "r2"):
        root.release(release).mkdir()
        (root.release(release) / COMPLETE).touch()
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps([{"name": "mac.node", "argv": ["x"]}])))
        _run(capsys, "activate", *where, "--release", release)
        if release == "r1":
            assert _run(capsys, "accept", "--root", root.path, "--service", "mac.node")["accepted"] == ["mac.node"]

    foreseen = _run(capsys, "rollback", *where, "--service", "mac.node", "--dry-run")
    assert (foreseen["release"], foreseen["current"], root.pointer("current")) == ("r1", "r2", "r2")
    done = _run(capsys, "rollback", *where, "--service", "mac.node", "--last-good")
    assert (done["what"], done["changed"], root.pointer("current")) == ("rollback", True, "r1")


def test_a_file_that_is_read_at_the_start_marks_its_reader(
    tmp_path: Path, manager: FakeManager, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only when it is really replaced: neither a dry run nor the same content asks for a restart."""
    root = HostRoot(tmp_path / "root")
    root.prepare()
    root.release("r1").mkdir()
    (root.release("r1") / COMPLETE).touch()
    services = json.dumps([{"name": "mac.node", "argv": ["x"]}])
    where = ("--root", root.path, "--home", tmp_path, "--release", "r1")
    monkeypatch.setattr("sys.stdin", io.StringIO(services))
    _run(capsys, "activate", *where)
    token = root.shared / "tokens" / "node.token"
    put = ("put", "--secret", "--path", token, "--restarts", "mac.node")

    marks = []
    for content, options in (("a", ["--dry-run"]), ("a", []), ("a", []), ("b", [])):
        record = root.shared / "run" / "mac.node.json"
        told = json.loads(record.read_text())
        told.pop("stale", None)
        record.write_text(json.dumps(told))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        _run(capsys, *put, "--root", root.path, *options)
        marks.append(json.loads(record.read_text()).get("stale"))

    assert marks == [None, "node.token was replaced", None, "node.token was replaced"]
    assert cli.main([*map(str, put)]) == 1
    assert "--restarts needs --root" in capsys.readouterr().err
