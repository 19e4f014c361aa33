"""Fixtures: llama.cpp in its folder, the tiny model, three nodes over three real servers."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.harness import ROOT, Cluster, cluster
from tests.engines.llama import LlamaServers
from tests.engines.tiny_model import write_tiny_model

INSTALLER = ROOT / "playbooks" / "roles" / "engines" / "files" / "install_llama.py"
UNAVAILABLE = 3  # the installer's exit code: no build for this system


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> LlamaServers:
    """llama.cpp installed (once), and the model written; without a build for this system the tests are skipped."""
    command = [sys.executable, str(INSTALLER), "--project", str(ROOT), "--into", str(ROOT / "build" / "engines")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == UNAVAILABLE:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    model = write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
    return LlamaServers(found["python"], found["launcher"], str(model))


@pytest.fixture
async def pool(tmp_path: Path, llama: LlamaServers) -> AsyncIterator[Cluster]:
    """Three nodes with 3, 4 and 3 slots over three llama.cpp servers."""
    async with cluster(tmp_path, engines=llama) as made:
        yield made
