"""playbooks/action_plugins/release_file.py, run by Ansible on this machine."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ("-e", f"ansible_python_interpreter={sys.executable}")  # of Ansible, where the task names none
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Put it
      release_file:
        src: {src}
        dest: {dest}
        mode: "0640"
        tool: {tool}
        {python}
      register: put
    - name: Tell
      ansible.builtin.copy: {{content: "{{{{ put | to_json }}}}", dest: "{folder}/told.json"}}
      check_mode: false
"""


@dataclass(frozen=True)
class Site:
    """A folder with a file to send, a home folder, and Ansible."""

    folder: Path

    def put(self, dest: str, *options: str, tool: bool = False, python: str = "") -> dict[str, Any]:
        """Run the action; what it returned, or the text of its failure as `failed`."""
        play = self.folder / "play.yml"
        told = self.folder / "told.json"
        told.unlink(missing_ok=True)
        play.write_text(
            PLAY.format(src=self.folder / "file.zip", dest=dest, tool=tool, folder=self.folder, python=python),
            encoding="utf-8",
        )
        env = {
            **os.environ,
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_ACTION_PLUGINS": str(ROOT / "playbooks" / "action_plugins"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "local"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "remote"),
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.folder / "home"),
        }
        command = [
            sys.executable,
            "-m",
            "ansible",
            "playbook",
            "-i",
            "localhost,",
            "-c",
            "local",
            str(play),
            *PYTHON,
            *options,
        ]
        done = subprocess.run(
            command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            return {"failed": done.stdout + done.stderr}
        found: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """The file holds some bytes."""
    (tmp_path / "file.zip").write_bytes(b"a release")
    (tmp_path / "home").mkdir()
    (tmp_path / "ansible.cfg").write_text("[defaults]\n", encoding="utf-8")
    return Site(tmp_path)


def test_a_file_is_put_once_and_check_tells_the_truth(site: Site) -> None:
    """A check run foresees the change and makes nothing; then it is put, with its mode; then there is nothing to do."""
    dest = site.folder / "root" / "incoming" / "file.zip"

    foreseen = site.put(str(dest), "--check")
    assert (foreseen["changed"], dest.parent.exists()) == (True, False)
    first = site.put(str(dest))
    assert (first["changed"], dest.read_bytes(), first["dest"]) == (True, b"a release", str(dest))
    assert dest.stat().st_mode & 0o777 == 0o640
    assert dest.parent.stat().st_mode & 0o777 == 0o700
    assert site.put(str(dest))["changed"] is False
    assert site.put(str(dest), "--check")["changed"] is False
    dest.write_bytes(b"damaged")
    assert site.put(str(dest))["changed"] is True
    assert [path.name for path in dest.parent.iterdir()] == ["file.zip"]


def test_a_tool_is_no_change_and_is_there_in_a_check_run(site: Site) -> None:
    """It lies in the account's own cache; a damaged one is put again; the path comes back whole."""
    first = site.put("~/.cache/iop/tool.pyz", "--check", tool=True)
    there = site.folder / "home" / ".cache" / "iop" / "tool.pyz"

    assert (first["changed"], first["dest"], there.read_bytes()) == (False, str(there), b"a release")
    there.write_bytes(b"damaged")
    assert site.put("~/.cache/iop/tool.pyz", tool=True)["changed"] is False
    assert there.read_bytes() == b"a release"


def test_what_cannot_be_done_is_said(site: Site) -> None:
    """A missing Python and a folder that is a file fail in words that name them."""
    (site.folder / "file").touch()

    assert "/no/such/python was tried" in site.put("x", python="python: /no/such/python")["failed"]
    text = site.put(f"{site.folder}/file/x.zip")["failed"]
    assert "x.zip cannot be put on the host" in " ".join(text.split())


def test_it_is_taken_away_again(site: Site) -> None:
    """All that a pattern names, and the folder with its last file; then there is nothing to do."""
    folder = site.folder / "home" / ".cache" / "iop"
    folder.mkdir(parents=True)
    for name in ("a-1.pyz", "a-2.pyz"):
        (folder / name).touch()
    absent = "state: absent"

    would = site.put("~/.cache/iop/a-*.pyz", "--check", python=absent)
    assert (would["changed"], len(list(folder.iterdir()))) == (True, 2)
    done = site.put("~/.cache/iop/a-*.pyz", python=absent)
    assert (done["changed"], sorted(done["dropped"])) == (True, [str(folder / "a-1.pyz"), str(folder / "a-2.pyz")])
    assert not folder.exists()
    assert site.put("~/.cache/iop/a-*.pyz", python=absent)["changed"] is False
