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
NODE, PROVIDER = "onexplayer-lemonade-node", "onexplayer-lemonade"


@contextlib.asynccontextmanager
async def busy(cluster: Cluster, count: int) -> AsyncIterator[None]:
    """Have `count` requests run or wait; leave them on the way out, and wait until the pool is empty."""
    body = payload("chat", tokens=100_000, stream=True)

    def there(status: dict[str, dict[str, int]]) -> bool:
        return status["totals"]["in_flight"] + status["totals"]["queued"] == count

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(send(cluster, body, "chat", f"busy-{n}")) for n in range(count)]
        try:
            await cluster.status_where(there, f"{count} run or wait")
            yield
        finally:
            for task in tasks:
                task.cancel()
    await cluster.calm()


async def test_at_zero_and_at_ten_and_one(look: Watched, three_nodes: Cluster, pictures: Path) -> None:
    """An idle pool says so; eleven requests fill every cell, and the eleventh is seen in line with its waiting time."""
    await look.open(three_nodes.at("control", "control"))
    await look.sees("#fresh", "live")
    await look.sees("#verdict", "Idle: 10 slots are free.")
    await look.sees("#problems", "Nothing is wrong.")
    await expect(look.page.locator(".fill:not(.empty)")).to_have_count(0, timeout=PATIENCE)
    await expect(look.page.locator(".cell")).to_have_count(10)
    await look.picture(pictures / "zero.png")
    async with busy(three_nodes, 11):
        await look.sees("#figures", re.compile(r"10 of 10.*1.*\d s"))
        await look.sees("#verdict", "Full: 1 request waits in line.")
        await expect(look.page.locator(".fill:not(.empty)")).to_have_count(10, timeout=PATIENCE)
        await look.sees(".waiter", re.compile(r"1\d+\.\d spoolbusy-\d+"))
        await expect(look.page).to_have_title("10/10, 1 waiting \u00b7 edge-test \u00b7 iop")
        await look.picture(pictures / "full.png")
    await look.sees("#verdict", "Idle: 10 slots are free.")
    await look.sees("#line", "Nobody waits.")
    await look.sees("#totals", "The law holds")


async def test_who_waits_is_known_to_a_page_that_comes_later(look: Watched, three_nodes: Cluster) -> None:
    """A page opened while requests wait reads the log again, and knows who they are, in order, and since when."""
    async with busy(three_nodes, 13):
        events = await three_nodes.events_after(0, 0)
        assert events
        await look.open(three_nodes.at("control", "control"))
        waiters = look.page.locator(".waiter")
        await expect(waiters).to_have_count(3, timeout=PATIENCE)
        texts = await waiters.locator(".waits").all_inner_texts()  # of one moment
        waits = [float(text.removesuffix(" s")) for text in texts]
        assert waits == sorted(waits, reverse=True)


async def test_the_mac_has_its_agent_beside_its_provider(look: Watched, three_nodes: Cluster) -> None:
    """The node's entry shows the CLI agent and the provider as resources of one node."""
    await look.open(three_nodes.at("control", "control"))
    mac = look.page.locator(".node", has_text="mac-codex-node")
    await expect(mac.locator(".resources li")).to_contain_text(
        [re.compile("provider.*mac-mlx-vllm.*0/3 slots"), re.compile("CLI agent.*echo.*no limit"), "direct route"],
        timeout=PATIENCE,
    )


async def test_a_drained_node_is_told_with_its_reason(look: Watched, three_nodes: Cluster) -> None:
    """A drain shows at its node and provider in words, and is over when it is over."""
    token = {"Authorization": f"Bearer {(three_nodes.folder / 'admin.token').read_text().strip()}"}
    drain = f"{three_nodes.at('admin')}/nodes/{NODE}/drain"
    await look.open(three_nodes.at("control", "control"))
    lease = {"lease_s": 600, "by": "kim", "reason": "new battery"}
    (await three_nodes.client.put(drain, json=lease, headers=token)).raise_for_status()
    await look.sees("#verdict", "7 slots are free. 7 of 10 slots take work.")
    await look.sees("#problems", f"{PROVIDER} is draining: it gets nothing new, what runs goes on: new battery")
    await look.sees(f".node:has-text('{NODE}')", "draining")
    (await three_nodes.client.delete(drain, headers=token)).raise_for_status()
    await look.sees("#problems", "Nothing is wrong.")
