"""A clone of the repository in a temporary folder, deployed for real on ports of its own."""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
WHO = ["-c", "user.name=tester", "-c", "user.email=tester@example.invalid"]
OFFSETS = (1, 2, 83, 84, 93, 102, 103)  # the ports of inventory/local, counted from its base
SERVICES = {
    "mac-mlx-vllm.engine", "gx10-vllm.engine", "onexplayer-lemonade.engine",
    "mac.control", "mac.edge", "mac.node", "gx10.node", "onexplayer.node",
}  # fmt: skip
HANGS = 900  # seconds that no command here takes, however busy the machine
NO_SMOKE = "-e run_smoke=false"  # the suite has its own step in CI, against an environment like this one
QUICK_TEST = 'def test_quick():\n    """The fast tests of the clone."""\n'


@dataclass(frozen=True)
class Run:
    """One run of a playbook: its exit code, all it said, and its report (empty for a check run)."""

    code: int
    text: str
    report: dict[str, Any]


class Site:
    """The clone and what is deployed from it."""

    def __init__(self, root: Path, base: int) -> None:
        self.root = root
        self.base = base
        self.home = root / "build" / "local-runtime"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "GIT_"))}
        self.env = {**kept, "IOP_PORT_BASE": str(base), "PATH": path}

    def make(self, target: str, arguments: str = "") -> Run:
        """`make <target> ENV=local` with this Python as the environment."""
        done = subprocess.run(
            self.command(target, arguments), cwd=self.root, env=self.env, **_QUIET, timeout=HANGS, check=False
        )
        return Run(done.returncode, done.stdout, {} if "--check" in arguments else self._report(done.stdout))

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
        found = self.fab_status()
        head = self.git("rev-parse", "--short", "HEAD")
        simulated = found["banner"].startswith("LOOPBACK, SIMULATED ENGINES")
        if found["well"] and simulated and found["edge"]["release_id"].startswith(head):
            return
        run = self.make("dev")
        assert run.code == 0, run.text

    def pids(self) -> dict[str, int]:
        """The pid of each service as its service manager knows it."""
        found = self.fab_status()
        return {one["name"]: one["pid"] for host in found["hosts"] for one in host["services"]}

    def fab_status(self) -> dict[str, Any]:
        """`fab status --json`."""
        command = [sys.executable, "-m", "fabric", "status", "--target", "local", "--json"]
        done = subprocess.run(command, cwd=self.root, env=self.env, **_QUIET, timeout=HANGS, check=False)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def edge_status(self) -> dict[str, Any]:
        """`/status` of the Edge's admin port."""
        found: dict[str, Any] = httpx.get(f"http://127.0.0.1:{self.base + 93}/status", trust_env=False).json()
        return found

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace text in a file of the clone, which must hold it."""
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def commit(self, message: str) -> str:
        """Commit everything; returns the short id."""
        self.git("add", "-A")
        self.git(*WHO, "commit", "-q", "-m", message)
        return self.git("rev-parse", "--short", "HEAD")

    def git(self, *arguments: str) -> str:
        """Run git in the clone; returns what it says."""
        done = subprocess.run(["git", *arguments], cwd=self.root, env=self.env, **_QUIET, check=True)
        return done.stdout.strip()

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

    def _report(self, text: str) -> dict[str, Any]:
        lines = [line for line in text.splitlines() if line.startswith("report: ")]
        if not lines:
            return {}
        found: dict[str, Any] = json.loads((Path(lines[-1][8:]) / "deploy.json").read_text(encoding="utf-8"))
        return found


_QUIET: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
}


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """The clone: HEAD, with one quick test in place of the fast tests. Everything ends with the session."""
    folder = Path(tempfile.mkdtemp(prefix="iop deploy "))  # the blank is on purpose
    root = folder / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
    for name in ("unit", "contract"):
        shutil.rmtree(root / "tests" / name, ignore_errors=True)
    (root / "tests" / "unit").mkdir()
    (root / "tests" / "unit" / "test_quick.py").write_text(QUICK_TEST, encoding="utf-8")
    site = Site(root, _free_base())
    site.commit("one quick test")
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
