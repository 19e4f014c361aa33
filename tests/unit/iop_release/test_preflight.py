"""iop_release.preflight: what is in the way, and what to do about it."""

import os
import shutil
import socket
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from iop_release import ports, preflight
from iop_release.processes import Process


def test_a_good_host_has_no_findings(tmp_path: Path) -> None:
    """This Python, some disk and a free port are enough; the home folder need not exist."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    assert preflight.check(tmp_path / "build" / "dev-runtime", [("127.0.0.1", port)]) == []


def test_a_strangers_port_names_pid_and_command(tmp_path: Path) -> None:
    """A taken port tells who holds it and that it was left alone."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        [finding] = preflight.check(tmp_path, [("127.0.0.1", listener.getsockname()[1])])

    assert finding.code == "port"
    assert f"pid {os.getpid()}" in finding.message
    assert "left alone" in finding.message
    assert f"kill {os.getpid()}" in finding.hint


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("{home}/hosts/mac/releases/r1/venv/bin/python", "-m", "x"), None),
        (("python", "-m", "old", "--node", preflight.EARLIER_SETUP), "earlier-setup"),
        (None, "port"),
    ],
)
def test_ours_strangers_and_the_earlier_setup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...] | None, code: str | None
) -> None:
    """Our own services may hold the port; the earlier set-up is recognised; an invisible owner is told as such."""
    owner = argv and Process(7, 1, tuple(part.replace("{home}", str(tmp_path)) for part in argv))
    monkeypatch.setattr(ports, "is_free", lambda host, port: False)
    monkeypatch.setattr(ports, "owner", lambda port: owner)

    findings = preflight.check(tmp_path, [("127.0.0.1", 18083)])

    assert [finding.code for finding in findings] == ([code] if code else [])


def test_an_old_python_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding tells which Python it is and which one is needed."""
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))

    [finding] = preflight.check(tmp_path, [])

    assert "Python 3.9.2; iop needs 3.11" in finding.message


def test_a_full_disk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little space is told with both numbers."""
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - the shape of shutil's own
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 10 << 20))

    [finding] = preflight.check(tmp_path / "later", [])

    assert "10 MiB free; a deploy needs" in finding.message
