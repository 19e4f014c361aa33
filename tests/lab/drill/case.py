"""One case of the drill: what went wrong, what the operator was told, how the next run put it right - with evidence."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.fakes.clone import Run, report_of
from tests.lab.lab import HOSTS, Done
from tests.lab.site import NODES, LabSite

PROGRAMS = {
    "mac": {"iop.commands.control": 1, "iop.commands.edge": 1, "iop.commands.node": 1, "iop.commands.simulator": 1},
    "gx10": {"iop.commands.node": 1, "iop.commands.simulator": 1},
    "onexplayer": {"iop.commands.node": 1, "iop.commands.simulator": 1},
}
# Counts the processes of a host by the module that they run; those that only wait for a worker's end are not services.
COUNT = r"""
import collections, json, pathlib
found = collections.Counter()
for entry in pathlib.Path("/proc").iterdir():
    try:
        words = (entry / "cmdline").read_bytes().decode().split("\0")
    except (OSError, NotADirectoryError):
        continue
    if "-m" in words and any(word.startswith("iop-release=") for word in words):
        found[words[words.index("-m") + 1]] += 1
print(json.dumps(found))
"""
UNIT = "iop-node.service"
DROP_IN = f"/run/systemd/system/{UNIT}.d"
PATIENCE = 120.0  # seconds for a condition on a loaded machine
NODES_ONLY = ("-e", "run_tests=false", "--tags", "nodes")
GX10 = (*NODES_ONLY, "--limit", "gx10")


class Drill:
    """The site for one case. What is run through it is kept in `folder`; `row` is its line of the summary."""

    def __init__(self, site: LabSite, name: str, folder: Path) -> None:
        self.site, self.lab, self.name, self.folder = site, site.lab, name, folder
        self.said = ""
        self.began = time.monotonic()
        self._runs = 0
        folder.mkdir(parents=True)
        self.keep("edge-before.json", site.edge_status())
        self.before = site.pids()

    def keep(self, name: str, what: object) -> None:
        """Put text or JSON into the evidence."""
        text = what if isinstance(what, str) else json.dumps(what, indent=2) + "\n"
        (self.folder / name).write_text(text, encoding="utf-8")

    def playbook(self, name: str, *arguments: str) -> Run:
        """Run a playbook to its end."""
        return self.kept(self.site.playbook(name, *arguments))

    def deploy(self, *arguments: str) -> Run:
        """A deploy without smoke."""
        return self.playbook("dev-runtime", "-e", "run_smoke=false", *arguments)

    def begin(self, *arguments: str) -> "Begun":
        """A deploy that something happens to meanwhile."""
        return Begun(self, self.site.command("dev-runtime", "-e", "run_smoke=false", *arguments))

    def refused(self, *arguments: str) -> str:
        """A deploy that must fail; its text with single blanks, in which a test looks for what the operator is told."""
        run = self.deploy(*arguments)
        assert run.code != 0, run.text
        return self.told(run)

    def told(self, run: Run) -> str:
        """What a failed run told, which must hold a next command."""
        text = " ".join(run.text.split())
        assert "next: " in text, run.text
        return text

    def kept(self, run: Run) -> Run:
        """Keep the output and the report of a run."""
        self._runs += 1
        self.keep(f"ansible-{self._runs}.txt", run.text)
        if run.report:
            self.keep(f"deploy-{self._runs}.json", run.report)
        return run

    def untouched(self, *but: str) -> None:
        """Every service but these is the process that it was before."""
        now = self.site.pids()
        assert {name for name, pid in self.before.items() if now.get(name) != pid} <= set(but), (self.before, now)

    def doctor(self) -> dict[str, Any]:
        """`fab doctor --json`, kept."""
        text = self.site.fab("doctor", "--json").stdout
        self.keep("doctor.json", text)
        found: dict[str, Any] = json.loads(text)
        return found

    def repaired(self, *arguments: str) -> Run:
        """The next deploy puts everything right."""
        run = self.deploy(*arguments)
        assert run.code == 0, run.text
        self.whole()
        return run

    def mended(self) -> None:
        """After a case that went wrong: what it broke is repaired, so that the next one is judged by itself."""
        if self.amiss():
            self.deploy("-e", "run_tests=false")

    def whole(self) -> None:
        """One release, all nodes connected and undrained, nothing in flight, no anomaly, one process per service."""
        until(lambda: self.amiss() == "", self.amiss)
        for host, wanted in PROGRAMS.items():
            done = self.lab.exec(host, "python3", "-c", COUNT)
            assert json.loads(done.out) == wanted, (host, done)

    def amiss(self) -> str:
        """What is not as it should be, in words; empty when all is well."""
        status = self.site.edge_status()
        wrong = [f"anomalies {status['anomalies']}"] if any(status["anomalies"].values()) else []
        if len(set(self.site.releases().values())) != 1 or len(self.site.releases()) != 1 + len(HOSTS):
            wrong.append(f"releases {self.site.releases()}")
        wrong += [f"{one['id']} {one['state']}" for one in status["nodes"] if one["state"] != "connected"]
        for one in status["provider_snapshots"]:
            if (one["state"], one["in_flight"], one["queued"]) != ("ready", 0, 0):
                wrong.append(f"{one['provider_id']} {one['state']} {one['in_flight']}/{one['queued']}")
        return "; ".join(wrong)

    def node(self, host: str) -> dict[str, Any]:
        """A host's node as the Edge sees it."""
        found: dict[str, Any] = next(one for one in self.site.edge_status()["nodes"] if one["id"] == NODES[host])
        return found

    def helper(self, host: str) -> list[int]:
        """Pids of the release helper on a host."""
        done = self.lab.exec(host, "pgrep", "-f", "iop_release-[0-9a-f]*[.]pyz (activate|rollback|put)")
        return [int(word) for word in done.out.split()]

    def send(self, host: str, path: Path) -> None:
        """Copy a file to /tmp of a host, as a person carries a release there by hand."""
        config = str(self.site.root / "build" / "lab" / "ssh_config")
        subprocess.run(["scp", "-q", "-F", config, str(path), f"{host}:/tmp/"], stdin=subprocess.DEVNULL, check=True)

    @contextmanager
    def slow(self, key: str) -> Iterator[Callable[[], None]]:
        """Hold gx10's node at its `ExecStop` or `ExecStartPre`, until what is yielded is called, or the end."""
        text = f"[Service]\n{key}=/bin/sh -c 'until [ -e /run/go ]; do sleep 0.1; done'\n"
        script = f'rm -f /run/go; mkdir -p {DROP_IN}; printf %s "$1" >{DROP_IN}/slow.conf; systemctl daemon-reload'
        self.lab.exec("gx10", "sh", "-c", script, "sh", text)
        try:
            yield lambda: assert_done(self.lab.exec("gx10", "touch", "/run/go"))
        finally:
            self.lab.exec("gx10", "sh", "-c", f"touch /run/go; rm -r {DROP_IN}; systemctl daemon-reload")

    def unit_state(self) -> str:
        """What systemd says of gx10's node, as `activating` or `deactivating`."""
        return self.lab.exec("gx10", "systemctl", "show", "--value", "-p", "ActiveState", UNIT).out.strip()

    def forget(self, *hosts: str) -> None:
        """An activation that did not finish: the record of the node is gone, so the next deploy must roll it."""
        for host in hosts:
            assert self.lab.exec(host, "rm", "-f", f"/srv/iop/shared/run/{host}.node.json").code == 0


class Begun:
    """A playbook that runs, in a process group of its own; its output is read as it comes."""

    def __init__(self, drill: Drill, command: list[str]) -> None:
        self._drill = drill
        self._seen = b""
        self._child = subprocess.Popen(
            command,
            cwd=drill.site.root,
            env=drill.site.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()

    def until(self, text: str) -> None:
        """Read until it says this."""
        assert self._child.stdout is not None
        deadline = time.monotonic() + PATIENCE
        while text.encode() not in self._seen:
            ready = select.select([self._child.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]
            data = os.read(self._child.stdout.fileno(), 65536) if ready else b""
            assert data, f"it never said {text!r}:\n{self._seen.decode()}"
            self._seen += data

    def interrupt(self, number: signal.Signals) -> None:
        """Ctrl-C (the whole group gets it, as from a terminal) or kill -9."""
        os.killpg(self._child.pid, number)

    def end(self) -> Run:
        """Wait for its end; a step that outlives a killed playbook still holds the pipe, and is not waited for."""
        assert self._child.stdout is not None
        deadline = time.monotonic() + 5 * PATIENCE
        while select.select([self._child.stdout], [], [], 1.0)[0] or self._child.poll() is None:
            assert time.monotonic() < deadline, self._seen.decode()
            if select.select([self._child.stdout], [], [], 0)[0]:
                data = os.read(self._child.stdout.fileno(), 65536)
                if not data:
                    break
                self._seen += data
        text = self._seen.decode(errors="replace")
        return self._drill.kept(Run(self._child.wait(), text, report_of(text)))


def until(holds: Callable[[], bool], why: Callable[[], object] = lambda: "") -> None:
    """Wait for a condition; fails with `why()` when its time is over."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, why()
        time.sleep(0.25)


def assert_done(done: Done) -> None:
    """A command on a host must work."""
    assert done.code == 0, done
