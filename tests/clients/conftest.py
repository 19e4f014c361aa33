"""Fixtures: the clients from npm, and one pool of three real llama.cpp servers with one slot each for all tests."""

import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.programs import Npm
from tests.cluster.harness import NODES, ROOT, Cluster, cluster
from tests.engines.llama import installed_llama
from tests.fakes.hygiene import nothing_left

INSTALLER = ROOT / "tests" / "clients" / "install.py"
NOT_TO_BE_HAD = (3, 4)  # the installer's exit codes: no node or npm, the registry could not be reached
CONTEXT = 32768  # tokens of each slot: `load.LONG` fits
#: `pool` is served by all three, each of the next three by one slot; answers of `short` end after a few tokens
MODELS = [
    {"id": "pool", "providers": {provider: f"engine-{provider}" for provider, _ in NODES.values()}},
    {"id": "solo", "providers": {"gx10-vllm": "engine-gx10-vllm"}},
    {"id": "short", "providers": {"mac-mlx-vllm": "engine-mac-mlx-vllm"}},
    {"id": "org/Tiny-Llama:1b", "providers": {"onexplayer-lemonade": "engine-onexplayer-lemonade"}},
    {"id": "agent", "direct": {"node": "mac-codex-node", "adapter": "cli", "target": "echo"}},
]
SHORT = 200  # tokens
OPTIONS = {
    "models": MODELS,
    "queue": {"max_waiting": 3},
    "stream": {"keepalive_after": "300ms", "write_timeout": "10m"},  # a test that holds a slot does not read its stream
}


@pytest.fixture(autouse=True)
def _leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """As around every test, but for those over the shared pool: threads of the session's loop, and an engine that was
    started anew, live on to the end of the session, where the pool looks at its own processes.
    """
    if "shared" in request.fixturenames:
        yield
    else:
        with nothing_left():
            yield


@pytest.fixture(scope="session")
def npm() -> Npm:
    """The clients from npm, installed (once); the tests are skipped where they cannot be had."""
    command = [sys.executable, str(INSTALLER), "--into", str(ROOT / "build" / "clients")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode in NOT_TO_BE_HAD:
        pytest.skip(done.stderr.rpartition("error: ")[2].strip())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return Npm(found["node"], Path(found["modules"]))


@contextlib.asynccontextmanager
async def llama_pool(folder: Path) -> AsyncIterator[Cluster]:
    """Three nodes with one slot each over three llama.cpp servers."""
    engines = replace(installed_llama(folder), context=CONTEXT, predict={"mac-mlx-vllm": SHORT})
    slots = {provider: 1 for provider, _ in NODES.values()}
    async with cluster(folder, engines=engines, capacities=slots, options=OPTIONS) as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """The pool of the whole session."""
    async with llama_pool(tmp_path_factory.mktemp("pool")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def pool(shared: Cluster) -> AsyncIterator[Cluster]:
    """The pool, at rest before and after each test: 0/0, no engine at work, no anomaly."""
    await shared.all_ready()
    yield shared
    await shared.calm()
