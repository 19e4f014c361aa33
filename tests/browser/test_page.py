"""The page over real processes: what a person sees at 0, when all is full, and when something is wrong."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.watched import PATIENCE, Watched
from tests.cluster.harness import Cluster
from tests.cluster.load import payload, send

pytestmark = pytest.mark.asyncio(loop_scope="session")


@contextlib.asynccontextmanager
async def busy(cluster: Cluster, count: int) -> AsyncIterator[None]:
    """Have `count` requests run or wait; leave them on the way out, and wait until the pool is empty."""
    body = payload("chat", tokens=100_000, stream=True)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(send(cluster, body, "chat", f"busy-{n}")) for n in range(count)]
        try:
            await cluster.status_where(
                lambda s: s["totals"]["in_flight"] + s["totals"]["queued"] == count, f"{count} there"
            )
            yield
        finally:
            for task in tasks:
                task.cancel()
    await cluster.calm()


async def test_at_zero_and_at_ten_and_one(look: Watched, three_nodes: Cluster, pictures: Path) -> None:
    """An idle pool says so; eleven requests fill every cell, and the eleventh is seen in line with its waiting time."""
    await look.open(three_nodes.at("control", "control"))
    await look.sees("#verdict", "Idle: 10 slots are free.")
    await look.sees("#problems", "Nothing is wrong.")
    await expect(look.page.locator(".fill:not(.empty)")).to_have_count(0, timeout=PATIENCE)
    await expect(look.page.locator(".cell")).to_have_count(10)
    await look.page.screenshot(path=pictures / "zero.png", full_page=True)
    async with busy(three_nodes, 11):
        await look.sees("#figures", re.compile(r"slots in use\s*10\s*of 10"))
        await look.sees("#verdict", "Full: 1 request waits in line.")
        await expect(look.page.locator(".fill:not(.empty)")).to_have_count(10, timeout=PATIENCE)
        await look.sees(".waiter", re.compile(r"1\s*\d+\.\d s\s*pool\s*busy-\d+"))
        await look.page.screenshot(path=pictures / "full.png", full_page=True)
    await look.sees("#verdict", "Idle: 10 slots are free.")
    await look.sees("#line", "Nobody waits.")
