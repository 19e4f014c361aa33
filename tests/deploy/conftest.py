"""A clone of the repository in a temporary folder, deployed for real on ports of its own."""

import os
import random
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.clone import Clone, Run, report_of

OFFSETS = (1, 2, 83, 84, 93, 102, 103)  # the ports of inventory/local, counted from its base
SERVICES = {
    "mac-mlx-vllm.engine", "gx10-vllm.engine", "onexplayer-lemonade.engine",
    "mac.control", "mac.edge", "mac.node", "gx10.node", "onexplayer.node",
}  # fmt: skip
NO_SMOKE = "-e run_smoke=false"  # the suite has its own step in CI, against an environment like this one


class Site(Clone):
    """The clone and what is deployed from it."""

    target = "local"

    def __init__(self, root: Path, base: int) -> None:
        super().__init__(root, IOP_PORT_BASE=str(base))
        self.base = base
        self.home = root / "build" / "local-runtime"

    def make(self, target: str, arguments: str = "") -> Run:
        """`make <target> ENV=local` with this Python as the environment."""
        done = self.call(self.command(target, arguments))
        return Run(done.returncode, done.stdout, {} if "--check" in arguments else report_of(done.stdout))

    def command(self, target: str, arguments: str = "") -> list[str]:
        """The command line of `make`."""
        python = sys.executable
        return [
            "make",
            target,
            "ENV=local",
            f"PYTHON={python}",
            f"BASE_PYTHON={python}",
            f"ARGS={NO_SMOKE} {arguments}",
        ]

    def deployed(self) -> None:
        """Make sure that HEAD runs, well and with simulated engines; a deploy is run only when it does not."""
        found = self.status()
        head = self.git("rev-parse", "--short", "HEAD")
        simulated = found["banner"].startswith("LOOPBACK, SIMULATED ENGINES")
        if found["well"] and simulated and found["edge"]["release_id"].startswith(head):
            return
        run = self.make("dev")
        assert run.code == 0, run.text

    def edge_status(self) -> dict[str, Any]:
        """`/status` of the Edge's admin port."""
        found: dict[str, Any] = httpx.get(f"http://127.0.0.1:{self.base + 93}/status", trust_env=False).json()
        return found

    def page(self, path: str) -> str:
        """A file of the Control Plane's page."""
        return httpx.get(f"http://127.0.0.1:{self.base + 1}{path}", trust_env=False).raise_for_status().text

    def processes(self) -> list[str]:
        """Command lines of all processes that have to do with this clone's build folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and entry.name != str(os.getpid()):
                try:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except OSError:
                    continue
                if f"{self.root}/build" in line:
                    found.append(line)
        return found


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """The clone: HEAD, with one quick test in place of the fast tests. Everything ends with the session."""
    folder = Path(tempfile.mkdtemp(prefix="iop deploy "))  # the blank is on purpose
    site = Site(folder / "clone", _free_base())
    try:
        yield site
    finally:
        site.make("clean")
        left = site.processes()
        shutil.rmtree(folder, ignore_errors=True)
        assert left == []


def _free_base() -> int:
    """A port base whose ports are all free now, below the range that the system hands out; each worker has its own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for _ in range(200):
        base = random.randrange(12000, 31000, 1000) + 200 * (worker % 5)
        if all(_is_free(base + offset) for offset in OFFSETS):
            return base
    raise AssertionError("no free port base")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
