"""Fixtures: real engines in their folders, the tiny model, three nodes over three llama.cpp servers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.harness import Cluster, cluster
from tests.engines.llama import LlamaServers, installed_llama
from tests.engines.mlx import MlxServers, installed_mlx


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> LlamaServers:
    """llama.cpp installed (once), and the model written; without a build for this system the tests are skipped."""
    return installed_llama(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def mlx(tmp_path_factory: pytest.TempPathFactory) -> MlxServers:
    """vllm-mlx and mlx_lm installed (once), and the model written; skipped where there is no build of them."""
    return installed_mlx(tmp_path_factory.mktemp("model"))


@pytest.fixture
async def pool(tmp_path: Path, llama: LlamaServers) -> AsyncIterator[Cluster]:
    """Three nodes with 3, 4 and 3 slots over three llama.cpp servers."""
    async with cluster(tmp_path, engines=llama) as made:
        yield made
