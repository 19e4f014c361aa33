"""A real Chromium for the page's tests: one per run, a fresh context per test, and nothing that it complains of."""

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.browser.watched import Watched, watched
from tests.cluster.harness import ROOT, Cluster, cluster

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
#: where the screenshots of a run are
PICTURES = ROOT / "build" / "browser"


def chromium() -> str | None:
    """The path of an installed Chromium, None when there is none."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One Chromium for all tests; without one they are skipped, and say what to do."""
    await _same_threads_for_all()
    program = chromium()
    if program is None:
        pytest.skip("no Chromium here: make test-browser installs it, or says how")
    # as root there is no sandbox to be had
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else list(FLAGS)
    async with async_playwright() as driver:
        made = await driver.chromium.launch(executable_path=program, args=flags, headless=True)
        yield made
        await made.close()


async def _same_threads_for_all(count: int = 4) -> None:
    """Start the threads of this loop now: it outlives each test, which would be told to have left them behind."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(count))
    together = threading.Barrier(count)
    await asyncio.gather(*(asyncio.to_thread(together.wait) for _ in range(count)))


@pytest_asyncio.fixture(loop_scope="session")
async def look(browser: Browser) -> AsyncIterator[Watched]:
    """A page that is watched: on the way out it must have had no error, no violation and no foreign request."""
    async with watched(browser) as made:
        yield made
        made.check()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Edge, Control Plane, three nodes with 3, 4 and 3 slots, slow simulators; shared by the tests of the page."""
    async with cluster(tmp_path_factory.mktemp("page"), rate=20.0) as made:
        yield made


@pytest.fixture(scope="session")
def pictures() -> Path:
    """The folder for screenshots; pictures of earlier runs stay until they are made again."""
    with contextlib.suppress(FileExistsError):
        PICTURES.mkdir(parents=True)
    return PICTURES
