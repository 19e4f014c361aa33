"""What the page says when a process dies, and that it comes back by itself: a node, the Control Plane, the Edge."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.watched import Watched
from tests.cluster.harness import Cluster, cluster

pytestmark = pytest.mark.asyncio(loop_scope="session")
NODE, PROVIDER = "onexplayer-lemonade-node", "onexplayer-lemonade"


@pytest_asyncio.fixture(loop_scope="session")
async def mortal(tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster whose processes may die."""
    async with cluster(tmp_path) as made:
        yield made


async def test_what_dies_is_told_and_what_comes_back_is_seen(look: Watched, mortal: Cluster, pictures: Path) -> None:
    """A killed node, Control Plane or Edge has its words on an open page, and is back on it without a reload."""
    look.may_fail_to_load = True
    await look.open(mortal.at("control", "control"))
    await look.sees("#fresh", "live")
    await a_node_dies(look, mortal, pictures)
    await the_control_plane_dies(look, mortal, pictures)
    await the_edge_dies(look, mortal)


async def a_node_dies(look: Watched, mortal: Cluster, pictures: Path) -> None:
    """Without its node a provider is offline, with the reason; a screen reader is told; then it is ready again."""
    await look.sees("#problems", "Nothing is wrong.")
    await mortal.processes[NODE].kill()
    row = f".provider:has-text('{PROVIDER}')"
    await look.sees(row, "offline")
    await look.sees("#problems", f"{PROVIDER} is offline: its node is not connected")
    await look.sees("#said", f"{PROVIDER} is offline")
    await look.sees("#events", f"{PROVIDER} is now offline")
    await look.picture(pictures / "node-down.png")
    await mortal.start_node(NODE)
    await look.sees(row, "ready")
    await look.sees("#problems", "Nothing is wrong.")
    await look.sees("#said", "All providers are ready.")


async def the_control_plane_dies(look: Watched, mortal: Cluster, pictures: Path) -> None:
    """The page says stale by itself; what it shows stands still and looks like it."""
    await mortal.processes["control"].kill()
    await look.sees("#fresh", "stale")
    await look.sees("#notice", "The Control Plane does not answer.")
    await look.sees("#verdict", "When last seen: Idle")
    await look.sees("#problems", "What is wrong now is not known")
    await expect(look.page).to_have_title(re.compile("^stale: "))
    await expect(look.page.locator("body")).to_have_class("stale")
    await look.picture(pictures / "stale.png")
    await mortal.start_control()
    await look.sees("#fresh", "live")
    await expect(look.page.locator("#notice")).to_be_hidden()


async def the_edge_dies(look: Watched, mortal: Cluster) -> None:
    """The Control Plane's word is passed on, and that another Edge process counts anew is said."""
    await mortal.processes["edge"].kill()
    await look.sees("#fresh", "stale")
    await look.sees("#notice", "The Edge does not answer")
    mortal.write_edge_config()  # with the ports it had
    await mortal.start_edge()
    await look.sees("#fresh", "live")
    await look.sees("#notice", "The Edge was started anew")
    await mortal.all_ready()
    await look.sees("#verdict", "Idle: 10 slots are free.")
