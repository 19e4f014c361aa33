"""iop.ops.helper: this checkout's release helper on a host where nothing is installed."""

import io
import os
import sys
import zipfile
from pathlib import Path

import pytest

from iop.admin.ssh_trouble import SshTrouble
from iop.ops.helper import Helper
from iop_release.app import packed
from tests.fakes import fake_ssh
from tests.fakes.remote_inventory import NAMES, remote
from tests.fakes.smoke_story import inventory

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scripted ssh in front of PATH whose hosts are this machine."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return fake_ssh.install(tmp_path / "bin", {f"{name}.test": "ok" for name in NAMES})


def test_a_host_tells_its_status_before_anything_is_deployed(folder: Path, tmp_path: Path) -> None:
    """The helper travels through standard input; one login; nothing but the answer comes back."""
    remotely = remote(ROOT, python=sys.executable, root=str(tmp_path / "srv"))
    helper = Helper(remotely, "gx10")
    helper._manager = "supervisor"  # no systemd is asked here
    told = helper.status()

    assert (told.data["current"], told.data["services"]) == (None, [])
    assert told.clock_off_s == 0.0
    assert len(fake_ssh.calls(folder)) == 1


def test_preflight_tells_what_is_in_the_way(folder: Path, tmp_path: Path) -> None:
    """Exit code 1 with findings is an answer."""
    found = Helper(inventory(ROOT), "n1").preflight([])

    assert "findings" in found.data
    assert fake_ssh.calls(folder) == []
    assert tmp_path.exists()


@pytest.mark.parametrize(
    ("python", "words"), [("/nonexistent/python3", "has no /nonexistent/python3"), ("/bin/false", "helper failed")]
)
def test_a_host_without_its_python_is_told_so(folder: Path, python: str, words: str) -> None:
    """The path is the inventory's, so that is what to correct."""
    with pytest.raises(SshTrouble, match=words):
        Helper(remote(ROOT, python=python), "gx10").status()
    assert len(fake_ssh.calls(folder)) == 1


def test_a_clock_that_is_off_is_measured(folder: Path, tmp_path: Path) -> None:
    """What the host says of its time counts against the call's own beginning and end."""
    ahead = tmp_path / "python"
    shifted = "import sys, time; real = time.time; time.time = lambda: real() + 7200; exec(sys.argv.pop(1))"
    ahead.write_text(
        f'#!{sys.executable}\nimport os, sys\nargs = [one for one in sys.argv[1:] if one not in ("-I", "-c")]\n'
        f'os.execv({sys.executable!r}, [{sys.executable!r}, "-I", "-c", {shifted!r}, *args])\n',
        encoding="utf-8",
    )
    ahead.chmod(0o755)
    helper = Helper(remote(ROOT, python=str(ahead), root=str(tmp_path / "srv")), "gx10")
    helper._manager = "supervisor"

    assert 7100 < helper.status().clock_off_s <= 7200
    assert fake_ssh.calls(folder)


def test_the_package_is_packed_alike_each_time_and_whole() -> None:
    """Same source, same bytes; templates are in it, caches are not."""
    first = packed()
    names = zipfile.ZipFile(io.BytesIO(first)).namelist()

    assert packed() == first
    assert {"__main__.py", "iop_release/cli.py", "iop_release/services/templates/linux.service"} <= set(names)
    assert not any("__pycache__" in name for name in names)
