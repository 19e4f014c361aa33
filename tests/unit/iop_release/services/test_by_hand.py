"""iop_release.services.by_hand: what a person carries to a Windows host. Its script was not run on a real Windows."""

import io
import json
import re
from pathlib import Path

import pytest

from iop_release import cli
from iop_release.errors import ReleaseError
from iop_release.services import by_hand
from iop_release.services.definitions import Host, task

HOST = Host("C:\\iop", "windows_task", "me", "me", "me", {"onexplayer.node": 40, "lemonade.engine": 10})


def test_the_folder_holds_what_a_deploy_compares_with(tmp_path: Path) -> None:
    """The tasks' XML byte for byte, the description, the script; the second time nothing is written."""
    written = by_hand.write(HOST, tmp_path, dry_run=True)
    assert list(tmp_path.iterdir()) == []
    assert by_hand.write(HOST, tmp_path) == written
    assert by_hand.write(HOST, tmp_path) == []

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["definitions.json", "iop-engine-lemonade.xml", "iop-node.xml", "register.ps1"]
    xml = (tmp_path / "iop-node.xml").read_bytes()
    assert xml.decode("utf-16") == task(HOST, "onexplayer.node").text()
    assert json.loads((tmp_path / "definitions.json").read_text(encoding="utf-8"))["root"] == "C:\\iop"


def test_the_script_registers_every_task_and_can_take_them_away(tmp_path: Path) -> None:
    """Its folder and names; no template's mark is left; each brace and bracket is closed; Windows' line ends."""
    text = by_hand.script(HOST)
    assert "$root = 'C:\\iop'\r\n$units = @('iop-engine-lemonade', 'iop-node')\r\n" in text
    assert re.search(r"schtasks @\('/Create', '/TN', \$unit, '/XML', .*'/F'\)", text)
    assert "Unregister-ScheduledTask -TaskName $unit" in text
    assert "*S-1-5-19:(OI)(CI)RX" in text
    assert "${" not in text
    assert "$$" not in text
    code = re.sub(r"#.*|'[^']*'|\"[^\"]*\"", "", text)
    for left, right in ("{}", "()"):
        assert code.count(left) == code.count(right) > 0
    assert text.count("\n") == text.count("\r\n")
    by_hand.write(HOST, tmp_path)
    assert (tmp_path / by_hand.SCRIPT).read_bytes().startswith(b"\xef\xbb\xbf#")


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (Host("/srv/iop", "systemd", "me", "me", "me", {}), "installed by bootstrap itself"),
        (Host("C:\\iop", "windows_task", "me", "iop-run", "me", {}), "needs its password"),
        (Host("C:\\o'x", "windows_task", "me", "me", "me", {}), "plainer folder"),
    ],
)
def test_what_cannot_be_is_said(host: Host, words: str, tmp_path: Path) -> None:
    """Another system, an account with a password, a folder that a script would misread."""
    with pytest.raises(ReleaseError, match=words):
        by_hand.write(host, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_the_command_knows_a_folder_of_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the machine that Ansible runs on, where that is no absolute path."""
    monkeypatch.setattr("sys.stdin", io.StringIO('[{"name": "onexplayer.node", "argv": ["-"]}]'))
    words = ["--root", "C:\\iop", "--manager", "windows_task", "--user", "me", "--into", str(tmp_path), "--json"]
    assert cli.main(["definitions", *words]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] is True
    assert json.loads((tmp_path / "definitions.json").read_text(encoding="utf-8"))["root"] == "C:\\iop"
