"""iop_release.windows: the process table by PowerShell, and command lines as arguments."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from iop_release import windows
from iop_release.errors import ReleaseError
from tests.fakes.service_rigs import place


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('"C:\\a b\\python.exe" -X x', ["C:\\a b\\python.exe", "-X", "x"]),
        ('a "b c" d', ["a", "b c", "d"]),
        ('a "" b', ["a", "", "b"]),
        ('a "b\\\\" c', ["a", "b\\", "c"]),
        ('a \\"b c', ["a", '"b', "c"]),
        ("a\\\\b c\\d \\", ["a\\\\b", "c\\d", "\\"]),
        ('a "say ""x""" b', ["a", 'say "x"', "b"]),
        ("", []),
        ("  a\t b ", ["a", "b"]),
    ],
)
def test_a_command_line_is_split_as_programs_see_it(line: str, words: list[str]) -> None:
    """Quotes, doubled quotes, backslashes before quotes and elsewhere."""
    assert list(windows.split(line)) == words


@pytest.mark.parametrize("word", ["", "a b", 'say "x"', "tail\\", "a\\\\b", '\\"', "it's", "100%"])
def test_what_python_joins_is_split_again(word: str) -> None:
    """Python starts programs with the same rules."""
    line = subprocess.list2cmdline(["prog", word, "end"])
    assert list(windows.split(line)) == ["prog", word, "end"]


def _powershell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"])
    program = tmp_path / "powershell.py"
    program.write_text(f"import sys; sys.stdout.buffer.write({output!r}.encode('utf-8-sig'))", encoding="utf-8")
    place(tmp_path / "bin", program, ["powershell"])


def test_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of what this account may see; a single process is no list; a byte order mark is no fault."""
    one = {"ProcessId": 7, "ParentProcessId": 1, "CommandLine": '"C:\\p q.exe" ü'}
    hidden = {"ProcessId": 4, "ParentProcessId": 0, "CommandLine": None}
    _powershell(tmp_path, monkeypatch, json.dumps([one, hidden]))
    assert windows.rows() == [(7, 1, ("C:\\p q.exe", "ü"))]
    _powershell(tmp_path, monkeypatch, json.dumps(one))
    assert windows.rows() == [(7, 1, ("C:\\p q.exe", "ü"))]


def test_no_powershell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is none, or nobody to ask: said in words."""
    _powershell(tmp_path, monkeypatch, "Access denied")
    with pytest.raises(ReleaseError, match="cannot list the processes"):
        windows.rows()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReleaseError, match="PowerShell"):
        windows.rows()


NETSTAT = """#!/bin/sh
[ "$3" = TCP ] && printf '
Aktive Verbindungen

  Proto  Lokale Adresse         Remoteadresse          Status           PID
  TCP    0.0.0.0:135            0.0.0.0:0              ABH\\224REN         888
  TCP    127.0.0.1:18083        127.0.0.1:50123        HERGESTELLT      4711
  TCP    127.0.0.1:18083        0.0.0.0:0              ABH\\224REN         4712
  UDP    0.0.0.0:500            *:*                                    3456
'
[ "$3" = TCPv6 ] && printf '
  TCP    [::1]:18084            [::]:0                 LISTENING       4713
'
exit 0
"""


def test_a_listener_is_known_in_every_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the port of its foreign address; a connection of the same port is none; without netstat nobody is known."""
    tool = tmp_path / "netstat"
    tool.write_text(NETSTAT, encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert windows.listener(18083) == 4712
    assert windows.listener(18084) == 4713
    assert windows.listener(500) is None
    assert windows.listener(8083) is None
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert windows.listener(18083) is None
