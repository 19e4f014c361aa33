"""A clone of this repository with a lab of its own, from which releases are deployed to the lab's hosts."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.lab import HOSTS, ROOT, Lab

WHO = ["-c", "user.name=tester", "-c", "user.email=tester@example.invalid"]
NODES = {"mac": "mac-codex-node", "gx10": "gx10-vllm-node", "onexplayer": "onexplayer-lemonade-node"}
QUICK_TEST = 'def test_quick():\n    """The fast tests of the clone."""\n'
LIMIT = 900  # seconds for one playbook on a loaded machine; it takes half a minute on an idle one


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


class LabSite:
    """The clone, its lab, and what is deployed there. `close` leaves nothing."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "clone"
        self.home = self.root / "build" / "lab-runtime"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "GIT_"))}
        self.env = {**kept, "PATH": path}
        subprocess.run(["git", "clone", "-q", str(ROOT), str(self.root)], check=True)
        for name in ("unit", "contract"):
            shutil.rmtree(self.root / "tests" / name, ignore_errors=True)
        (self.root / "tests" / "unit").mkdir()
        (self.root / "tests" / "unit" / "test_quick.py").write_text(QUICK_TEST, encoding="utf-8")
        self.commit("one quick test")
        self.lab = Lab(self.root)

    def up(self) -> subprocess.CompletedProcess[str]:
        """Boot the hosts; exit code 3 where this machine cannot."""
        return self._call([str(self.root / "tests" / "lab" / "lab.sh"), "up"])

    def close(self) -> None:
        """Switch the hosts off and remove everything."""
        self._call([str(self.root / "tests" / "lab" / "lab.sh"), "down"])
        shutil.rmtree(self.root.parent, ignore_errors=True)

    def playbook(self, name: str, *arguments: str) -> Run:
        """Run a playbook against the lab as make and fab do."""
        done = self._call(self.command(name, *arguments))
        return Run(done.returncode, done.stdout, self._report(done.stdout))

    def deploy(self, *arguments: str) -> Run:
        """`dev-runtime` without the smoke suite, which is a test of its own."""
        return self.playbook("dev-runtime", "-e", "run_smoke=false", *arguments)

    def command(self, name: str, *arguments: str) -> list[str]:
        """The command line of a playbook's run."""
        launch = str(self.root / "playbooks" / "launch.py")
        return [sys.executable, launch, name, "-i", str(self.root / "inventory" / "lab"), *arguments]

    def fab(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`fab … --target lab`."""
        return self._call([sys.executable, "-m", "fabric", *arguments, "--target", "lab"])

    def status(self) -> dict[str, Any]:
        """`fab status --json`."""
        found: dict[str, Any] = json.loads(self.fab("status", "--json").stdout)
        return found

    def pids(self) -> dict[str, int]:
        """The pid of each service, asked of its host's service manager."""
        return {one["name"]: one["pid"] for host in self.status()["hosts"] for one in host["services"]}

    def edge_status(self) -> dict[str, Any]:
        """`/status` of the Edge's admin port, asked on its host."""
        code = "import sys, urllib.request as u; sys.stdout.write(u.urlopen('http://127.0.0.1:19093/status').read().decode())"
        done = self.lab.ssh("mac", f'python3 -c "{code}"')
        assert done.code == 0, done.err
        found: dict[str, Any] = json.loads(done.out)
        return found

    def releases(self) -> dict[str, str]:
        """The release of the Edge (`edge`) and of each connected node, by host, as the Edge tells it."""
        status = self.edge_status()
        nodes = {one["id"]: one.get("release_id") for one in status["nodes"] if one["connected"]}
        return {
            "edge": status["edge"]["release_id"],
            **{host: nodes[NODES[host]] for host in HOSTS if NODES[host] in nodes},
        }

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

    def new_release(self, mark: str) -> str:
        """Commit a change of the version, so that the next deploy is another release; returns the short id."""
        path = self.root / "runtime" / "iop" / "__init__.py"
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("# release")]
        path.write_text("\n".join([*lines, f"# release {mark}"]) + "\n", encoding="utf-8")
        return self.commit(f"release {mark}")

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

    def _call(self, command: list[str]) -> subprocess.CompletedProcess[str]:
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

    def _report(self, text: str) -> dict[str, Any]:
        lines = [line for line in text.splitlines() if line.startswith("report: ")]
        if not lines:
            return {}
        found: dict[str, Any] = json.loads((Path(lines[-1][8:]) / "deploy.json").read_text(encoding="utf-8"))
        return found
