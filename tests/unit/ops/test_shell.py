"""iop.ops.shell: a program on a host, here or through a scripted ssh whose far side is this machine."""

import os
import sys
from pathlib import Path

import pytest

from iop.admin.ssh_trouble import SshTrouble
from iop.config.inventory import Inventory
from iop.ops.shell import Shell
from tests.fakes import fake_ssh
from tests.fakes.remote_inventory import NAMES, remote
from tests.fakes.smoke_story import inventory


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """A remote environment whose hosts answer."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    fake_ssh.install(tmp_path / "bin", {f"{name}.test": "ok" for name in NAMES})
    return remote(tmp_path, python=sys.executable)


def test_words_arrive_as_they_were_given(there: Inventory) -> None:
    """Blanks, quotes, dollars and line ends pass the far shell unharmed; input, output and exit code pass, too."""
    odd = ["a b", "'", '"', "$HOME", "x\ny", "*"]
    program = "import sys; print(sys.argv[1:]); print(sys.stdin.read(), file=sys.stderr); sys.exit(3)"

    ran = Shell(there, "gx10").run([sys.executable, "-c", program, *odd], b"input")

    assert ran.stdout.strip() == repr(odd)
    assert (ran.code, ran.stderr.strip()) == (3, "input")
    assert ran.started <= ran.ended


def test_a_host_that_is_this_machine_is_not_logged_in_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No ssh on PATH, and it works; a program that is missing is exit code 127."""
    monkeypatch.setenv("PATH", str(tmp_path))
    shell = Shell(inventory(tmp_path), "n1")

    assert shell.python == sys.executable
    assert shell.run([sys.executable, "-c", "print(1)"]).stdout.strip() == "1"
    assert shell.run(["no-such-program"]).code == 127
    with pytest.raises(SshTrouble, match="did not end within 0 s"):
        shell.run([sys.executable, "-c", "import time; time.sleep(3600)"], patience=0.2)


def test_failures_of_ssh_are_troubles(there: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is not known, silence, and a machine without ssh."""
    fake_ssh.install(tmp_path / "bin", {"gx10.test": "unknown-key", "mac.test": "silent"})
    with pytest.raises(SshTrouble, match="host key of gx10"):
        Shell(there, "gx10").run(["true"])
    with pytest.raises(SshTrouble, match=r"mac .* did not answer within 1 s"):
        Shell(there, "mac").run(["true"], patience=1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SshTrouble, match="Install the OpenSSH client"):
        Shell(there, "gx10").run(["true"])


def test_windows_gets_its_own_quoting(tmp_path: Path) -> None:
    """cmd.exe is what its ssh server starts: double quotes, no POSIX ones, no terminal."""
    windows = remote(tmp_path, service_manager="windows_task", root="C:/iop", python="C:/Program Files/python.exe")
    command = Shell(windows, "gx10").command(["C:/Program Files/python.exe", "-c", "print('x y')"])

    assert command[-1] == '"C:/Program Files/python.exe" -c "print(\'x y\')"'
    assert "-T" in command
    assert "-tt" not in command
