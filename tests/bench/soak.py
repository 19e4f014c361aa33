"""Very many requests, and nothing that grows: `make soak`.

    python -m tests.bench.soak [--requests 100000] [--seed S] [--minutes 40]

One Edge, a Control Plane, three nodes and their simulators with instant answers serve a mixed load. Memory, open files,
threads and asyncio tasks of each process must be flat after the warm-up. Exit code 0: they are, no request failed, the
law held in each status, and 0/0 at the end; 1: something is not so; 130: stopped. Evidence: build/soak/<run>/.
"""

import argparse
import asyncio
import contextlib
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

from iop.domain.law import violations_of_status
from tests.bench.chaos import cancellable, say
from tests.bench.flat import Flatness, Limit, flatness
from tests.bench.load import Load, Mix
from tests.bench.record import Answer
from tests.cluster.harness import NODES, ROOT, Cluster, Process
from tests.fakes.hygiene import handles

CLIENTS, DIRECT = 24, 1
SAMPLE_S = 2.0
TELL_S = 10.0
MIX = Mix(lengths=(1, 2, 4, 8, 30), pause_s=0.0, direct_pause_s=4.0, parts=("reads",) * 12 + ("leaves soon",))
JUDGED = ("edge", "control", *NODES)
MIB = 1024 * 1024
#: a median may not be above that of the first window by more than this
LIMITS = {
    "RSS": Limit(0.05, 4 * MIB),
    "fds": Limit(0.0, 6),
    "threads": Limit(0.0, 1),
    "tasks": Limit(0.0, 8),
}
BAD = ("error", "cut", "refused", "unfinished", "wrong")


class SoakCluster(Cluster):
    """A cluster whose programs' tasks are counted beside them."""

    async def spawn(self, name: str, command: Sequence[str]) -> Process:
        """Start it with the counter."""
        if name in JUDGED:
            module = command.index("-m") + 1
            counter = str(Path(__file__).with_name("counted.py"))
            command = [command[0], "-P", counter, str(self.folder / f"{name}.tasks"), *command[module:]]
        return await super().spawn(name, command)


@dataclass
class Soak:
    """Samples of each process, and what was wrong."""

    made: SoakCluster
    load: Load
    samples: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: {name: {what: [] for what in LIMITS} for name in JUDGED}
    )
    snapshots: int = 0
    troubles: list[str] = field(default_factory=list)
    failures: list[Answer] = field(default_factory=list)

    async def sample(self) -> None:
        """One look at each process, and at the Edge's status."""
        for name in JUDGED:
            for what, value in look(self.made.processes[name].child.pid, self.made.folder / f"{name}.tasks").items():
                self.samples[name][what].append(value)
        with contextlib.suppress(httpx.HTTPError):
            status = await self.made.get(f"{self.made.at('admin')}/status")
            self.snapshots += 1
            self.troubles += [f"law: {text}" for text in violations_of_status(status)]
            if any(status["anomalies"].values()):
                self.troubles.append(f"anomalies: {status['anomalies']}")

    def judged(self) -> dict[tuple[str, str], Flatness]:
        """Every series of every process. Raises ValueError when the run was too short."""
        return {
            (name, what): flatness(series, LIMITS[what])
            for name, kinds in self.samples.items()
            for what, series in kinds.items()
        }


def look(pid: int, tasks: Path) -> dict[str, float]:
    """What a process holds now: bytes of memory, open files, threads, asyncio tasks (of a second ago at most)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    found = {"RSS": int(fields["VmRSS"].split()[0]) * 1024.0, "threads": float(fields["Threads"])}
    found["fds"] = float(len(handles(pid)))
    text = tasks.read_text(encoding="ascii").strip() if tasks.exists() else ""
    return {**found, **({"tasks": float(text)} if text else {})}


async def soak(requests: int, seed: int, minutes: float) -> int:
    """Run it; returns the exit code."""
    folder = ROOT / "build" / "soak" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{seed}"
    (folder / "cluster").mkdir(parents=True)
    say(f"soak of {requests} requests, seed {seed}, at most {minutes:g} minutes")
    made = SoakCluster(folder / "cluster", rate=1e6)
    loop = asyncio.get_running_loop()
    start = loop.time()
    try:
        await made.start()
        failures: list[Answer] = []
        load = Load(
            made.openai, seed, lambda: loop.time() - start,
            lambda answer: failures.append(answer) if answer.outcome in BAD else None, MIX, limit=requests,
        )  # fmt: skip
        run = Soak(made, load, failures=failures)
        start = loop.time()
        await _serve(run, minutes)
        seconds = loop.time() - start
        try:
            await made.calm()
            await made.close()
        except AssertionError as error:
            run.troubles.append(str(error)[:2000])
    finally:
        await made.client.aclose()
        await asyncio.gather(*(p.stop() for p in made.processes.values() if p.child.returncode is None))
        (folder / "cluster" / "admin.token").unlink(missing_ok=True)
    return conclude(run, requests, seconds, folder)


async def _serve(run: Soak, minutes: float) -> None:
    load, limit = run.load, run.load.limit or 0
    told = 0.0
    async with load.running(CLIENTS, DIRECT):
        while load.requests + load.under_way < limit or load.under_way:
            if load.clock() > minutes * 60:
                run.troubles.append(f"only {load.requests} of {limit} requests in {minutes:g} minutes")
                break
            await run.sample()
            if load.clock() - told >= TELL_S:
                told = load.clock()
                rss = run.samples["edge"]["RSS"][-1] / MIB
                say(
                    f"{told:5.0f} s · {load.requests} requests, {load.requests / max(told, 1):.0f}/s · "
                    f"{len(run.failures)} failed · Edge {rss:.1f} MiB"
                )
            await asyncio.sleep(SAMPLE_S)


def conclude(run: Soak, requests: int, seconds: float, folder: Path) -> int:
    """Judge, print the table and the line, keep the evidence; returns the exit code."""
    (folder / "samples.json").write_text(json.dumps(run.samples), encoding="utf-8")
    found = [f"{one.request_id} ({one.kind}): {one.outcome} {one.status} {one.code} {one.why}" for one in run.failures]
    found += run.troubles
    judged: dict[tuple[str, str], Flatness] = {}
    try:
        judged = run.judged()
    except ValueError as error:
        found.append(str(error))
    found += [
        f"{name}: {what} is not flat: {_medians(what, one)}" for (name, what), one in judged.items() if not one.ok
    ]
    counts = run.load.counts
    served = (
        f"{run.load.requests} requests in {seconds:.0f} s ({run.load.requests / max(seconds, 1):.0f}/s): "
        f"{counts['answered']} answered, {counts['left']} left; {run.snapshots} statuses"
    )
    lines = [
        f"{'process':26} {'what':8} medians of the windows after the warm-up",
        *(f"{name:26} {what:8} {_medians(what, one)}" for (name, what), one in judged.items()),
        served,
        *found[:40], last_line(run, judged, requests),
    ]  # fmt: skip
    (folder / "report.md").write_text("\n".join(["# Soak", "", "```", *lines, "```", ""]), encoding="utf-8")
    say("\n".join(lines))
    return 1 if found else 0


def last_line(run: Soak, judged: dict[tuple[str, str], Flatness], requests: int) -> str:
    """The run in one line."""
    parts = [f"soak {min(requests, run.load.requests)} requests · {len(run.failures)} failed"]
    nodes = [one.growth for (name, what), one in judged.items() if what == "RSS" and name in NODES]
    if judged:
        edge, control = judged["edge", "RSS"].growth, judged["control", "RSS"].growth
        parts.append(f"RSS edge {edge:+.1%}, nodes {max(nodes):+.1%} at most, control {control:+.1%}")
    for what in ("fds", "threads", "tasks"):
        bad = [name for (name, kind), one in judged.items() if kind == what and not one.ok]
        parts.append(f"{what} {'NOT flat: ' + ', '.join(bad) if bad else 'flat' if judged else 'not judged'}")
    return " · ".join([*parts, f"{len(run.troubles)} other findings" if run.troubles else "final 0/0"])


def _medians(what: str, one: Flatness) -> str:
    unit = MIB if what == "RSS" else 1
    shown = " ".join(f"{value / unit:.1f}" if what == "RSS" else f"{value:g}" for value in one.medians)
    return f"{shown}{' MiB' if what == 'RSS' else ''} ({one.growth:+.1%})"


def main(argv: Sequence[str] | None = None) -> int:
    """Run it as a command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=100_000, metavar="N", help="how many (100000)")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="of an earlier run")
    parser.add_argument("--minutes", type=float, default=40.0, metavar="M", help="the longest it may take (40)")
    options = parser.parse_args(argv)
    if not Path("/proc/self/fd").is_dir():
        say("soak reads /proc: it runs on Linux only")
        return 3
    seed = random.SystemRandom().randrange(1, 10**6) if options.seed is None else options.seed
    return cancellable(soak(options.requests, seed, options.minutes))


if __name__ == "__main__":
    sys.exit(main())
