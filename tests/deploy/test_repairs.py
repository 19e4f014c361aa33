"""`make dev` for real, on loopback: killed, interrupted, refused, removed - and repaired by the next run."""

import os
import signal
import socket
import subprocess
import sys
import time

from tests.deploy.conftest import SERVICES, Site
from tests.fakes.clone import QUICK_TEST


def test_killed_processes_are_repaired(site: Site) -> None:
    """After kill -9 of a node and of supervisord the next run has one process per service again."""
    site.deployed()
    before = site.pids()
    os.kill(int((site.home / "supervisor" / "supervisord.pid").read_text(encoding="utf-8")), signal.SIGKILL)
    os.kill(before["gx10.node"], signal.SIGKILL)

    run = site.make("dev")

    assert run.code == 0, run.text
    after = site.pids()
    assert not set(after.values()) & set(before.values())
    services = [line for line in site.processes() if "iop-release=" in line]
    assert len(services) == len(SERVICES)
    assert site.status()["well"] is True


def test_failing_tests_stop_the_deploy(site: Site) -> None:
    """A commit whose fast tests fail is not deployed; what runs goes on; the flag deploys it all the same."""
    site.deployed()
    before = site.pids()
    site.edit("tests/unit/test_quick.py", QUICK_TEST, QUICK_TEST + "    raise AssertionError\n")
    site.commit("a failing test")
    try:
        run = site.make("dev")
        assert run.code != 0
        assert "The fast tests fail at this commit" in run.text
        assert "FAILED tests/unit/test_quick.py" in run.text  # pytest's own words
        assert run.report["outcome"] == "failed"
        assert site.pids() == before
    finally:
        site.git("reset", "-q", "--hard", "HEAD~1")


def test_down_and_clean_leave_nothing(site: Site) -> None:
    """`make down` ends every process and keeps the build; `make clean` removes that too, temp folder included."""
    site.deployed()
    assert site.make("down").code == 0
    assert site.processes() == []
    assert (site.home / "bin" / "edge").is_file()

    assert site.make("clean").code == 0
    assert not (site.root / "build").exists()
    assert site.make("down").code == 0


def test_a_stranger_on_our_port_is_named_and_left_alone(site: Site) -> None:
    """Someone else's listener stops the run with its pid and command, and lives on; nothing was started."""
    site.make("down")  # the test above left nothing, so in order this is over at once
    stranger = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(site.base + 83), "--bind", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until_listening(site.base + 83)
        run = site.make("dev")
        assert run.code != 0
        assert f"port {site.base + 83} is taken by pid {stranger.pid}" in run.text
        assert "http.server" in run.text
        assert stranger.poll() is None
        assert [line for line in site.processes() if "iop-release=" in line] == []
    finally:
        stranger.terminate()
        stranger.wait()


def _until_listening(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)
