"""Redeploys of the whole lab under load: `make lab-rolling`. Nobody may notice them but by a wait.

    python -m tests.lab.rolling [--deploys 3] [--edge-only 1] [--clients 10] [--retries 0] [--edge-manager systemd]

Makes a clone with a lab of its own, deploys a first commit, and then, under load, one new commit after another to all
nodes, the Edge and the Control Plane; after that a commit to the Edge alone. Exit code 0: no request failed, none ran
twice, the longest wait is below a minute, and at the end nothing is left over. 1: something of this is not so, and it
is said what; 3: this machine cannot carry a lab.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from iop.admin.forwards import Forwards
from iop.config.inventory import Inventory, load_inventory
from iop.domain.law import violations_of_status
from tests.fakes.clone import Run
from tests.lab.load import Failure, Load
from tests.lab.site import LabSite

SAMPLE_S = 0.5
TELL_S = 10.0
CALM_WITHIN_S = 60.0
LONGEST_WAIT_S = 60.0
SETTLE_S = 5.0  # of load before the first deploy, after the last, and between two

Tell = Callable[[str], None]


@dataclass
class Result:
    """What a run saw; `troubles` says in words what must not be."""

    load: Load
    deploys: list[Run] = field(default_factory=list)
    instances: list[str] = field(default_factory=list)  # of the Edge, in the order in which they were seen
    snapshots: int = 0
    troubles: list[str] = field(default_factory=list)
    engines: dict[str, int] = field(default_factory=dict)  # what the engines counted meanwhile
    checks: int = 0  # answers that the deploys themselves asked for
    full: int = 0  # deploys of everything

    @property
    def duplicates(self) -> int:
        """Runs of an engine that nobody asked for."""
        return max(0, self.engines.get("started", 0) - self.load.requests - self.checks)

    @property
    def edge_restarts(self) -> int:
        """Edges that followed the first one."""
        return max(0, len(self.instances) - 1)

    def last_line(self) -> str:
        """The result in one line."""
        load = self.load
        return (
            f"requests {load.requests} · failed {len(load.failures)} · duplicates {self.duplicates} · "
            f"longest wait {load.wait(1):.1f} s · deploys {self.full} · edge restarts {self.edge_restarts}"
        )


class Rolling:
    """The deploys, the load and the watch of one site."""

    def __init__(self, site: LabSite, *, clients: int = 10, retries: int = 0, tell: Tell = print) -> None:
        self._site = site
        self._clients = clients
        self._tell = tell
        self._inventory: Inventory = load_inventory("lab", site.root)
        self._forwards = Forwards(self._inventory)
        self._doing = "load before the first deploy"
        self.result = Result(Load("", retries))

    async def run(self, deploys: Sequence[tuple[str, ...]]) -> Result:
        """Deploy a new commit for each of `deploys`, which are further arguments of the playbook."""
        result = self.result
        urls = await asyncio.to_thread(self._forwards.open)
        result.load.base_url = urls.openai
        try:
            async with httpx.AsyncClient(base_url=urls.admin, trust_env=False, timeout=40) as admin:
                before = await asyncio.to_thread(self._engines)
                watch = [asyncio.ensure_future(self._sample(admin)), asyncio.ensure_future(self._progress())]
                try:
                    async with result.load.running(self._clients):
                        await self._deploy_all(deploys)
                    self._doing = "the end"
                    await self._calm(admin)
                finally:
                    for task in watch:
                        task.cancel()
                    await asyncio.gather(*watch, return_exceptions=True)
                after = await asyncio.to_thread(self._engines)
        finally:
            self._forwards.close()
        self._count(before, after)
        return result

    async def _deploy_all(self, deploys: Sequence[tuple[str, ...]]) -> None:
        await asyncio.sleep(SETTLE_S)
        for number, arguments in enumerate(deploys, 1):
            name = " ".join(["deploy", str(number), *arguments])
            await asyncio.to_thread(self._site.new_release, f"{name} of {datetime.now(UTC):%H:%M:%S}")
            self._doing = name
            began = time.monotonic()
            run = await asyncio.to_thread(self._site.deploy, *arguments)
            self.result.deploys.append(run)
            self.result.full += not arguments
            self._say(f"{name}: exit {run.code}, {time.monotonic() - began:.0f} s")
            if run.code != 0:
                self.result.troubles.append(f"{name} failed (exit {run.code}):\n{run.text[-4000:]}")
                return
            self._doing = f"load after {name}"
            await asyncio.sleep(SETTLE_S)

    async def _sample(self, admin: httpx.AsyncClient) -> None:
        """The law in every snapshot, and which Edge says it; an Edge that is about to follow is waited for."""
        result = self.result
        while True:
            with contextlib.suppress(httpx.HTTPError):
                answer = await admin.get("/status")
                if answer.status_code == 200:
                    status = answer.json()
                    result.snapshots += 1
                    if (instance := status["edge"]["instance_id"]) not in result.instances:
                        result.instances.append(instance)
                    result.troubles += [f"{self._clock()} law: {one}" for one in violations_of_status(status)]
                    if any(status["anomalies"].values()):
                        result.troubles.append(f"{self._clock()} anomalies: {status['anomalies']}")
            await asyncio.sleep(SAMPLE_S)

    async def _progress(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            load = self.result.load
            self._say(
                f"{self._doing} · requests {load.requests} · failed {len(load.failures)} · under way {load.under_way}"
                f" · longest wait {load.wait(1):.1f} s · edge restarts {self.result.edge_restarts}"
            )

    async def _calm(self, admin: httpx.AsyncClient) -> None:
        """Nothing runs, nobody waits, nothing is anomalous, every provider is ready."""
        deadline = time.monotonic() + CALM_WITHIN_S
        seen = "no answer"
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.HTTPError):
                status = (await admin.get("/status")).json()
                totals, providers = status["totals"], status["provider_snapshots"]
                states = {one["provider_id"]: one["state"] for one in providers}
                seen = f"{totals['in_flight']}/{totals['queued']}, {states}, anomalies {status['anomalies']}"
                if not (totals["in_flight"] or totals["queued"]) and set(states.values()) == {"ready"}:
                    return
            await asyncio.sleep(SAMPLE_S)
        self.result.troubles.append(f"no calm after {CALM_WITHIN_S:.0f} s: {seen}")

    def _engines(self) -> dict[str, int]:
        """Counters of all simulated engines, each asked on its host."""
        total = {"started": 0, "completed": 0, "cancelled": 0, "running": 0, "waiting": 0}
        for host in self._inventory.hosts:
            for provider in host.providers:
                url = f"http://127.0.0.1:{provider.engine_port}/stats"
                code = f"import sys, urllib.request as u; sys.stdout.write(u.urlopen('{url}').read().decode())"
                done = self._site.lab.ssh(host.name, f'python3 -c "{code}"')
                if done.code != 0:
                    raise RuntimeError(f"{host.name}: {url} does not answer: {done.err}")
                stats = json.loads(done.out)
                for name in total:
                    total[name] += stats[name]
        return total

    def _count(self, before: dict[str, int], after: dict[str, int]) -> None:
        """Hold the engines' own counters against what clients and deploys got."""
        result = self.result
        result.engines = {name: after[name] - before[name] for name in ("started", "completed", "cancelled")}
        checks = [one for run in result.deploys for told in run.report["checks"] for one in told["checks"].values()]
        result.checks = sum(bool(one["ok"]) for one in checks)
        wanted = result.load.answered + result.checks
        if not result.load.failures and result.engines != {"started": wanted, "completed": wanted, "cancelled": 0}:
            result.troubles.append(
                f"the engines count {result.engines}; {result.load.answered} answers came to the clients and "
                f"{result.checks} to the checks of the deploys"
            )
        if after["running"] or after["waiting"]:
            result.troubles.append(f"the engines still run {after['running']} and keep {after['waiting']} waiting")

    def _clock(self) -> str:
        return f"{datetime.now(UTC):%H:%M:%S}"

    def _say(self, text: str) -> None:
        self._tell(f"{self._clock()} {text}")


def explain(failure: Failure, deploys: Sequence[Run]) -> str:
    """The failure, and what the deploy of that moment did while the request was under way."""
    from_, to = failure.at - timedelta(seconds=failure.seconds), failure.at
    lines = [str(failure)]
    for number, run in enumerate(deploys, 1):
        steps = run.report.get("steps", ())
        times = [datetime.fromisoformat(one["at"]) for one in steps]
        if not times or to < times[0]:
            continue
        end = datetime.fromisoformat(run.report["started_at"]) + timedelta(seconds=run.report["seconds"] + 1)
        for step, began, ended in zip(steps, times, [*times[1:], end], strict=True):
            if began <= to and ended >= from_:
                hosts = [name for name, one in step["hosts"].items() if one["outcome"] != "skipped"]
                where = f" on {', '.join(hosts)}" if hosts else ""
                lines.append(f"    deploy {number}, {began:%H:%M:%S.%f} to {ended:%H:%M:%S.%f}: {step['name']}{where}")
    return "\n".join(lines)


def verdict(result: Result, restarts: int) -> list[str]:
    """What is wrong, in words; empty when the run is good."""
    found = [explain(failure, result.deploys) for failure in result.load.failures] + result.troubles
    if result.duplicates:
        found.append(f"{result.duplicates} requests ran more often than they were asked")
    if result.load.wait(1) > LONGEST_WAIT_S:
        found.append(f"the longest wait is {result.load.wait(1):.1f} s, more than {LONGEST_WAIT_S:.0f} s")
    if result.edge_restarts != restarts:
        found.append(f"{result.edge_restarts} restarts of the Edge were seen instead of {restarts}")
    if not result.load.answered:
        found.append("no request was answered")
    return found


def edge_on_systemd(site: LabSite) -> None:
    """Have the services of the Edge's host run by systemd, as an account of their own."""
    site.edit(
        "inventory/lab/host_vars/mac/connection.yml",
        "service_manager: launchd\n",
        "service_manager: systemd\nservice_user: iop\n",
    )
    site.commit("mac runs its services by systemd")


def main() -> int:
    """Run it as a command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.rolling", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--deploys", type=int, default=3, metavar="N", help="new commits to everything (3)")
    parser.add_argument("--edge-only", type=int, default=1, metavar="N", help="new commits to the Edge alone (1)")
    parser.add_argument("--clients", type=int, default=10, metavar="N", help="requests at once (10)")
    parser.add_argument("--retries", type=int, default=0, metavar="N", help="max_retries of the SDK (0)")
    parser.add_argument("--edge-manager", choices=("launchd", "systemd"), default="launchd", help="of the Edge's host")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="iop rolling "))
    try:
        site = LabSite(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        return _run(site, options)
    finally:
        site.close()


def _run(site: LabSite, options: argparse.Namespace) -> int:
    say(f"a lab of its own, the Edge's host with {options.edge_manager}")
    code = site.begin(say, edge_on_systemd) if options.edge_manager == "systemd" else site.begin(say)
    if code != 0:
        return code
    deploys: list[tuple[str, ...]] = [() for _ in range(options.deploys)]
    deploys += [("--tags", "edge") for _ in range(options.edge_only)]
    rolling = Rolling(site, clients=options.clients, retries=options.retries, tell=say)
    result = asyncio.run(rolling.run(deploys))
    return report(result, len(deploys))


def report(result: Result, restarts: int) -> int:
    """Print what was seen; returns the exit code."""
    load = result.load
    say(", ".join(f"{name} {count}" for name, count in sorted(load.kinds.items())))
    p50, p99, longest = (load.wait(share) for share in (0.5, 0.99, 1))
    say(f"wait of an answer beyond its own time: p50 {p50:.2f} s, p99 {p99:.2f} s, max {longest:.2f} s")
    say(f"engines: {result.engines}, {result.checks} of each for the deploys' own checks")
    say(f"snapshots in which the law was checked: {result.snapshots}")
    found = verdict(result, restarts)
    for one in found:
        say(one)
    say(result.last_line())
    return 1 if found else 0


def say(text: str) -> None:
    """A line at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
