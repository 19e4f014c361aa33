"""A clone of this repository with a lab of its own, from which releases are deployed to the lab's hosts."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.clone import Clone, Run, report_of
from tests.lab.lab import CANNOT, HOSTS, Lab

NODES = {"mac": "mac-codex-node", "gx10": "gx10-vllm-node", "onexplayer": "onexplayer-lemonade-node"}


class LabSite(Clone):
    """The clone, its lab, and what is deployed there. `close` leaves nothing."""

    target = "lab"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "clone")
        self.home = self.root / "build" / "lab-runtime"
        self.lab = Lab(self.root)

    def up(self) -> subprocess.CompletedProcess[str]:
        """Boot the hosts; exit code `CANNOT` where this machine cannot."""
        return self.call([str(self.root / "tests" / "lab" / "lab.sh"), "up"])

    def begin(self, tell: Callable[[str], None], change: Callable[["LabSite"], None] = lambda _site: None) -> int:
        """Boot the hosts, make a `change`, and deploy for the first time; return the exit code of what went wrong."""
        up = self.up()
        if up.returncode != 0:
            tell(up.stdout.strip())
            return CANNOT if up.returncode == CANNOT else 1
        change(self)
        for name in ("bootstrap", "dev-runtime"):
            tell(f"first {name}")
            run = self.playbook(name, "-e", "run_smoke=false")
            if run.code != 0:
                tell(run.text)
                return 1
        return 0

    def close(self) -> None:
        """Switch the hosts off and remove everything."""
        self.call([str(self.root / "tests" / "lab" / "lab.sh"), "down"])
        shutil.rmtree(self.root.parent, ignore_errors=True)

    def playbook(self, name: str, *arguments: str) -> Run:
        """Run a playbook against the lab as make and fab do."""
        done = self.call(self.command(name, *arguments))
        return Run(done.returncode, done.stdout, report_of(done.stdout))

    def deploy(self, *arguments: str) -> Run:
        """`dev-runtime` without the smoke suite, which is a test of its own."""
        return self.playbook("dev-runtime", "-e", "run_smoke=false", *arguments)

    def command(self, name: str, *arguments: str) -> list[str]:
        """The command line of a playbook's run."""
        launch = str(self.root / "playbooks" / "launch.py")
        return [sys.executable, launch, name, "-i", str(self.root / "inventory" / "lab"), *arguments]

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

    def new_release(self, mark: str) -> str:
        """Commit a change of the version, so that the next deploy is another release; returns the short id."""
        path = self.root / "runtime" / "iop" / "__init__.py"
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("# release")]
        path.write_text("\n".join([*lines, f"# release {mark}"]) + "\n", encoding="utf-8")
        return self.commit(f"release {mark}")
