"""A clone of this repository that deploys are run from: it has commits of its own, and one quick test."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WHO = ["-c", "user.name=tester", "-c", "user.email=tester@example.invalid"]
QUICK_TEST = 'def test_quick():\n    """The fast tests of the clone."""\n'
LIMIT = 900  # seconds that no command here takes, however busy the machine


@dataclass(frozen=True)
class Run:
    """One run of a playbook: its exit code, all it said, and its report (empty where it wrote none)."""

    code: int
    text: str
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        """Changed steps of all hosts, from the recap."""
        return sum(int(word.partition("=")[2]) for word in self.text.split() if word.startswith("changed="))


class Clone:
    """The clone in a folder that is not there yet; commands in it run without the settings of this test run."""

    target: str  # the environment that is deployed from it

    def __init__(self, root: Path, **variables: str) -> None:
        self.root = root
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "GIT_"))}
        self.env = {**kept, **variables, "PATH": path}
        subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
        for name in ("unit", "contract"):
            shutil.rmtree(root / "tests" / name, ignore_errors=True)
        (root / "tests" / "unit").mkdir()
        (root / "tests" / "unit" / "test_quick.py").write_text(QUICK_TEST, encoding="utf-8")
        self.commit("one quick test")

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace text in a file of the clone, which must hold it."""
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{name} does not hold {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def commit(self, message: str) -> str:
        """Commit everything; returns the short id."""
        self.git("add", "-A")
        self.git(*WHO, "commit", "-q", "-m", message)
        return self.git("rev-parse", "--short", "HEAD")

    def git(self, *arguments: str) -> str:
        """Run git in the clone; returns what it says."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def call(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Run a command in the clone to its end; stdout holds both streams."""
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    def fab(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """`fab … --target <env>`."""
        return self.call([sys.executable, "-m", "fabric", *arguments, "--target", self.target])

    def status(self) -> dict[str, Any]:
        """`fab status --json`."""
        found: dict[str, Any] = json.loads(self.fab("status", "--json").stdout)
        return found

    def pids(self) -> dict[str, int]:
        """The pid of each service, asked of its host's service manager."""
        return {one["name"]: one["pid"] for host in self.status()["hosts"] for one in host["services"]}


def report_of(text: str) -> dict[str, Any]:
    """The report that a run's output names; empty where it names none."""
    lines = [line for line in text.splitlines() if line.startswith("report: ")]
    if not lines:
        return {}
    found: dict[str, Any] = json.loads((Path(lines[-1][8:]) / "deploy.json").read_text(encoding="utf-8"))
    return found
