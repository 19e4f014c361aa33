"""What stands behind the providers is chosen by each deploy, by facts, and reports call it what it is."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.deploy.conftest import Site
from tests.fakes.clone import ROOT


@pytest.fixture
def own_engine() -> Iterator[str]:
    """An engine that is not the environment's; yields its base URL."""
    command = [sys.executable, "-m", "iop.commands.simulator", "serve", "--listen", "127.0.0.1:0"]
    child = subprocess.Popen(
        [*command, "--model", "my-model", "--slots", "10"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "runtime")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    address = child.stdout.readline().split("simulator=")[1].split()[0]
    yield f"http://{address}/v1"
    child.terminate()
    child.communicate()


def _behind(url: str, model: str) -> str:
    return f"-e engine_kind=external -e engine_url={url} -e engine_model={model}"


def test_the_users_own_engine_takes_the_place_of_ours_and_back(site: Site, own_engine: str) -> None:
    """A wrong model changes nothing, the right one ends our engines and is in the reports, a plain deploy undoes it."""
    site.deployed()
    before = site.pids()

    wrong = site.make("dev", _behind(own_engine, "nothing"))
    assert wrong.code != 0
    assert f"{own_engine} has no model nothing; it has: my-model" in wrong.text
    assert site.pids() == before

    run = site.make("dev", _behind(own_engine, "my-model"))
    assert run.code == 0, run.text
    assert [name for name in site.pids() if name.endswith(".engine")] == []
    assert {name: pid for name, pid in before.items() if not name.endswith(".engine")} == site.pids()
    assert site.status()["banner"].startswith("LOOPBACK, ONE MACHINE: your own engine")
    assert site.make("dev", _behind(own_engine, "my-model")).report["changed"] == 0

    site.deployed()
    assert set(site.pids()) == set(before)
    assert site.status()["banner"].startswith("LOOPBACK, SIMULATED ENGINES")
