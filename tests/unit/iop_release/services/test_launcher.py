"""iop_release.services.launcher: scripts that become a service's program, whatever its paths and values look like."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services.contract import Service
from iop_release.services.launcher import CMD, Launchers

ODD = ("a b", "it's", "$HOME `id` \\", "100%", "", 'say "x"', "two\nlines", "-n", "a;b&c|d>e")
SHOW = "import json,os,sys; print(json.dumps([sys.argv[1:], os.environ['X'], os.getpid()]))"


def _service(*extra: str, **env: str) -> Service:
    return Service("gx10.node", (sys.executable, "-c", SHOW, *extra), env)


def test_the_program_gets_exactly_its_arguments(tmp_path: Path) -> None:
    """The shell script hands over every odd argument and value, and is replaced by the program: the same pid."""
    launchers = Launchers(tmp_path / "a 'b' $c")
    launchers.write(_service(*ODD, X="\n".join(ODD)))

    with subprocess.Popen([launchers.path("gx10.node")], stdout=subprocess.PIPE, text=True) as child:
        arguments, value, pid = __import__("json").loads(child.communicate()[0])

    assert (tuple(arguments), value, pid) == (ODD, "\n".join(ODD), child.pid)


def test_written_once_and_whole(tmp_path: Path) -> None:
    """The same text is left alone; another replaces it; owner and group may run it, others may not read it."""
    launchers, path = Launchers(tmp_path), tmp_path / "shared" / "run" / "iop-node.sh"
    old = os.umask(0o077)
    try:
        assert launchers.write(_service(X="1")) is True
    finally:
        os.umask(old)
    before = path.stat()
    assert launchers.write(_service(X="1")) is False
    assert path.stat().st_ino == before.st_ino
    assert launchers.write(_service(X="2")) is True
    assert path.stat().st_mode & 0o777 == 0o750
    assert list(path.parent.iterdir()) == [path]


def test_launchers_know_their_services(tmp_path: Path) -> None:
    """Read back by unit; other files in the folder are none; a removed one is forgotten."""
    launchers = Launchers(tmp_path)
    assert launchers.services() == {}
    launchers.write(_service(X="1"))
    launchers.write(Service("vllm.engine", ("x",)))
    (tmp_path / "shared" / "run" / "iop-other.sh").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")

    assert launchers.services() == {"iop-node": "gx10.node", "iop-engine-vllm": "vllm.engine"}
    launchers.remove("gx10.node")
    launchers.remove("gx10.node")
    assert launchers.services() == {"iop-engine-vllm": "vllm.engine"}


def test_a_batch_file_is_one(tmp_path: Path) -> None:
    """Windows: line ends, the code page first, percent signs doubled, every argument quoted, output appended."""
    launchers = Launchers(tmp_path, CMD)
    service = Service("x.node", ("C:\\iop 100%\\python.exe", "-X", "a=b\\", "x&y"), {"X": "50% & more"})
    launchers.write(service, Path("C:/logs/x.log"))

    raw = launchers.path("x.node").read_bytes()
    lines = raw.decode("utf-8").split("\r\n")
    assert raw.count(b"\n") == raw.count(b"\r\n")
    assert lines[0] == "@echo off"
    assert lines.index("chcp 65001 >nul") < lines.index('set "X=50%% & more"')
    assert lines[lines.index(":again") :] == [
        ":again",
        '"C:\\iop 100%%\\python.exe" "-X" "a=b\\\\" "x&y" >> "C:/logs/x.log" 2>&1',
        "if %ERRORLEVEL% EQU 0 exit /b 0",
        "ping -n 6 127.0.0.1 >nul",
        "goto again",
        "",
    ]
    assert launchers.argv("x.node") == service.argv
    assert launchers.argv("y.edge") == ()
    assert launchers.services() == {"iop-node": "x.node"}


@pytest.mark.parametrize("text", ['say "x"', "two\nlines", "back\r"])
def test_what_a_batch_file_cannot_hold_is_refused(tmp_path: Path, text: str) -> None:
    """A quote or a line end would become another command."""
    for service in (_service(text, X="1"), _service(X=text)):
        with pytest.raises(ReleaseError, match="batch file cannot hold"):
            Launchers(tmp_path, CMD).write(service)


def test_a_bad_variable_is_refused(tmp_path: Path) -> None:
    """A name with a blank or a sign would become shell text."""
    with pytest.raises(ReleaseError, match="not a name of an environment variable"):
        Launchers(tmp_path).write(Service("x.node", ("a",), {"A;b": "1"}))
