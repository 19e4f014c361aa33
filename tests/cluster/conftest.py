"""Fixtures of the process-level tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.harness import Cluster, cluster


@pytest.fixture
async def three_nodes(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Three nodes with 3, 4 and 3 slots, Edge, Control Plane, simulators."""
    async with cluster(tmp_path) as made:
        yield made
