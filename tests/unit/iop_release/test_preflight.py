"""iop_release.preflight: what is in the way, and what to do about it."""

import getpass
import json
import os
import platform
import shutil
import socket
import sys
import time
from collections import namedtuple
from dataclasses import asdict
from pathlib import Path

import pytest

from iop_release import ports, preflight, processes
from iop_release.processes import Process
from iop_release.services.definitions import Host
from iop_release.targets import Target


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


def test_a_stranger_is_named_without_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its command line holds beyond program and script comes neither to the screen nor into a report."""
    stranger = Process(os.getpid(), 1, ("/usr/bin/python3", "/srv/serve.py", "--api-key", "sk-s3cret", "u:s3cret@host"))
    monkeypatch.setattr(ports, "is_free", lambda host, port: False)
    monkeypatch.setattr(ports, "owner", lambda port: stranger)

    [finding] = preflight.check(tmp_path, [("127.0.0.1", 18083)])

    assert f"taken by pid {os.getpid()} of {getpass.getuser()}: python3 serve.py; it is not ours" in finding.message
    assert "s3cret" not in finding.message + finding.hint


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


@pytest.mark.parametrize(
    ("port", "alive", "codes"), [(18084, True, []), (18084, False, ["port"]), (18085, True, ["port"])]
)
def test_a_service_of_another_account_is_known_by_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int, alive: bool, codes: list[str]
) -> None:
    """Who deploys may not see the sockets of the services' account, but the command line of the recorded pid."""
    argv = list(processes.read(os.getpid()).argv) if alive else ["python", "other"]  # type: ignore[union-attr]
    record = {"release": "r1", "digest": "d", "pid": os.getpid(), "argv": argv, "ports": [18083, 18084]}
    folder = tmp_path / "shared" / "run"
    folder.mkdir(parents=True)
    (folder / "box.edge.json").write_text(json.dumps(record), encoding="utf-8")
    monkeypatch.setattr(ports, "is_free", lambda host, port: False)
    monkeypatch.setattr(ports, "owner", lambda port: None)

    assert [one.code for one in preflight.check(tmp_path, [("127.0.0.1", port)])] == codes


def test_sockets_that_systemd_holds_for_a_stopped_edge_are_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The definitions that bootstrap wrote name their addresses."""
    folder = tmp_path / "shared"
    folder.mkdir()
    edge = {"box.edge": 40}
    host = Host(str(tmp_path), "systemd", "u", "iop", "iop", edge, {"nodes": "0.0.0.0:18084"})
    (folder / "definitions.json").write_text(json.dumps(asdict(host)), encoding="utf-8")
    monkeypatch.setattr(ports, "is_free", lambda host, port: False)
    monkeypatch.setattr(ports, "owner", lambda port: None)

    assert preflight.check(tmp_path, [("0.0.0.0", 18084)]) == []
    assert [one.code for one in preflight.check(tmp_path, [("127.0.0.1", 18083)])] == ["port"]


def test_an_old_python_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding tells which Python it is and which one is needed."""
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))

    [finding] = preflight.check(tmp_path, [])

    assert "Python 3.9.2; iop needs 3.11" in finding.message


def test_a_newer_python_than_the_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no wheels for it; those that have some are named."""
    monkeypatch.setattr(sys, "version_info", (3, 99, 0, "final", 0))

    [finding] = preflight.check(tmp_path, [])

    assert "is Python 3.99, for which iop has no locked wheels" in finding.message
    assert "3.11, 3.12, 3.13, 3.14" in finding.hint


def test_a_python_without_venv_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a bare Debian has it."""
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda name: None)

    assert [one.code for one in preflight.check(tmp_path, [])] == ["venv"]


@pytest.mark.parametrize(
    ("libc", "codes"), [(("glibc", "2.27"), ["libc"]), (("glibc", "2.28"), []), (("glibc", "3.1"), []), (("", ""), [])]
)
def test_an_old_libc_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, libc: tuple[str, str], codes: list[str]
) -> None:
    """The wheels would not be taken there."""
    monkeypatch.setattr(platform, "libc_ver", lambda: libc)

    assert [one.code for one in preflight.check(tmp_path, [])] == codes


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_that_is_not_ours_asks_for_bootstrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Whether it exists or its parent refuses it; the account is named."""
    home = tmp_path if there else tmp_path / "iop"
    monkeypatch.setattr(os, "access", lambda path, mode: False)

    [finding] = preflight.check(home, [])

    assert finding.message.startswith(f"{home} cannot be {'written' if there else 'made in'}")
    assert finding.message.endswith(f"by {preflight.facts(home)['user']}")
    assert "bootstrap.yml" in finding.hint


def test_facts_say_what_to_build_for(tmp_path: Path) -> None:
    """Platform and Python as `build --target` takes them, space, clock and account."""
    told = preflight.facts(tmp_path / "later")

    assert Target.load(str(told["target"])) == Target.here()
    assert told["platform"] == Target.here().platform
    assert told["python_tag"] == f"py3.{sys.version_info[1]}"
    assert str(told["python"]).startswith(f"3.{sys.version_info[1]}.")
    assert isinstance(told["free_bytes"], int)
    assert isinstance(told["time"], float)


@pytest.mark.parametrize(("off", "said"), [(0.0, ""), (59.0, ""), (120.0, "behind"), (-120.0, "ahead of")])
def test_a_wrong_clock_is_a_warning(monkeypatch: pytest.MonkeyPatch, off: float, said: str) -> None:
    """More than a minute apart from the machine that deploys; without its time nothing is said."""
    monkeypatch.setattr(time, "time", lambda: 1000.0)

    told = preflight.warnings(1000.0 + off)

    assert ["" if not told else told[0]["message"].split(" seconds ")[1].rsplit(" that")[0]] == [said]
    assert preflight.warnings(None) == []


def test_a_full_disk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little space is told with both numbers."""
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - the shape of shutil's own
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 10 << 20))

    [finding] = preflight.check(tmp_path / "later", [])

    assert "10 MiB free; a deploy needs" in finding.message
