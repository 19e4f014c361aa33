"""The lab as a fixture: three booted hosts, up for the session, down at its end."""

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab import CANNOT, LAB, ROOT, Lab
from tests.lab.site import LabSite

#: a person's own lab is taken as it stands and left up
KEEP = os.environ.get("IOP_LAB_KEEP") == "1"


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Hosts that are up. One session at a time per checkout: other test processes wait for their turn."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "lab.lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        site = Lab()
        if not (KEEP and site.is_up()):
            _up()
        try:
            yield site
        finally:
            if not KEEP:
                subprocess.run([LAB, "down"], check=True, timeout=120)


def _up() -> None:
    done = subprocess.run(
        [LAB, "up"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode == CANNOT and os.environ.get("CI") != "true":
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, f"lab.sh up: exit {done.returncode}\n{done.stderr}"


@pytest.fixture(scope="session")
def site() -> Iterator[LabSite]:
    """A clone of HEAD with a lab of its own, bootstrapped and deployed once; nothing outlives the session."""
    site = LabSite(Path(tempfile.mkdtemp(prefix="iop lab ")))  # the blank is on purpose
    try:
        done = site.up()
        if done.returncode == CANNOT and os.environ.get("CI") != "true":
            pytest.skip(done.stdout.strip().splitlines()[-1])
        assert done.returncode == 0, done.stdout
        for name in ("bootstrap", "dev-runtime"):
            run = site.playbook(name, "-e", "run_smoke=false")
            assert run.code == 0, run.text
        yield site
    finally:
        site.close()


@pytest.fixture
def healed(lab: Lab) -> Iterator[Lab]:
    """The lab for a test with faults: whatever it did, all hosts are on, whole and reachable afterwards."""
    yield lab
    lab.repair()
