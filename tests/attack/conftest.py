"""The attacked cluster: one for each module, which must be unharmed after each of its tests."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.attack.target import Target
from tests.cluster.harness import cluster

#: small bounds, so that whatever runs into one does so soon
OPTIONS = {
    "http": {"max_body": "1MiB"},
    "stream": {"idle_timeout": "20s", "keepalive_after": "1s"},
    "queue": {"max_wait": "5s", "offline_grace": "2s"},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def target(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    """Edge, Control Plane, three nodes and their engines, warm."""
    async with cluster(tmp_path_factory.mktemp("attack"), rate=5000.0, options=dict(OPTIONS)) as made:
        found = Target(made)
        await found.remember()
        yield found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _unharmed(target: Target) -> AsyncIterator[None]:
    """Whatever was done, it holds."""
    yield
    await target.unharmed()
