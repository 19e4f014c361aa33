"""Fixtures of the process-level tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cluster.harness import Cluster, cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """The same cluster for all tests of a module, for those that leave it as they found it."""
    async with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
async def three_nodes(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Three nodes with 3, 4 and 3 slots, Edge, Control Plane, simulators."""
    async with cluster(tmp_path) as made:
        yield made
