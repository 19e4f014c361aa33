"""Fixtures of the Edge's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.edge_under_test import EdgeUnderTest, edge_under_test


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[EdgeUnderTest]:
    """An Edge over one node (not yet connected) with one provider of two slots."""
    async with edge_under_test(tmp_path) as made:
        yield made
