"""The scale of the line: 10,000 waiting requests and 1,000 open streams before 50 nodes with 20 providers each.

    python -m tests.bench.speed.line [--json] [--hand-overs N]

One real Edge; its nodes and its clients are played by this process, which takes about as much CPU as the Edge. Rows are
(test, what, value, unit): the time from the end of a run at its node to the arrival of the next run, the Edge's CPU per
hand-over (with the answer that ended and the newcomer that took its place in line) at three lengths of the line, the
time of /status and /metrics, and the Edge's memory. Exit codes: 0, 1 when a goal is missed, 3 when this machine cannot
carry it.
"""

import argparse
import asyncio
import gc
import json
import resource
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvloop

from tests.bench.speed.linerig import SLOTS, Clients, Nodes, config
from tests.bench.speed.processes import Children, accepts, await_calm, cpu_of, free_ports, memory_of
from tests.bench.speed.rig import NotUp
from tests.bench.speed.tools import ROOT

LENGTHS = (10, 1_000, 10_000)
#: seconds from one hand-over to the next, so that each is measured by itself
PACE = 0.006
CHUNKS_PER_TURN = 6
#: (test, what) -> the most that is well
GOALS: Mapping[tuple[str, str], float] = {
    ("hand-over", "p99, 10000 waiting"): 5.0,
    ("hand-over", "p99, 10000 waiting, 1000 chunks/s"): 5.0,
    ("status", "/status, 10000 waiting, median"): 50.0,
    ("cost", "CPU per hand-over, 10000 : 10 waiting"): 1.5,
}
NEEDED_FILES = 12_500
#: seconds for the Edge to start, or for the line to fill
PATIENCE = 60

Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run it as a command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.speed.line", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each row")
    parser.add_argument("--hand-overs", type=int, default=400, metavar="N", help="at each length (400)")
    options = parser.parse_args(argv)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= hard < NEEDED_FILES:
        sys.stderr.write(f"the line needs {NEEDED_FILES} open files, this machine lets us have {hard}: ulimit -Hn\n")
        return 3
    gc.disable()  # a pause of ours would be told as one of the Edge
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(NEEDED_FILES, hard), hard))
    with (
        tempfile.TemporaryDirectory(prefix="iop-line-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        try:
            rows = runner.run(measure(Path(folder), options.hand_overs))
        except NotUp as error:
            sys.stderr.write(f"{error}\n")
            return 3
    for row in rows:
        sys.stdout.write((json.dumps(row) if options.json else _told(row)) + "\n")
    return int(any(row["value"] > row["goal"] for row in rows if "goal" in row))


def _told(row: Row) -> str:
    goal = f"   at most {row['goal']:g}" if "goal" in row else ""
    return f"{row['test']:10s} {row['what']:44s} {row['value']:9.2f} {row['unit']}{goal}"


class Measure:
    """One Edge under measurement. `rows` are what was found."""

    def __init__(self, edge: int, ports: Sequence[int], nodes: Nodes) -> None:
        self.rows: list[Row] = []
        self._edge = edge
        self._admin = ports[2]
        self._nodes = nodes
        self.clients = Clients(ports[0])

    def tell(self, test: str, what: str, value: float, unit: str) -> None:
        """Note a row."""
        row = {"test": test, "what": what, "value": round(value, 3), "unit": unit}
        self.rows.append(row | ({"goal": GOALS[test, what]} if (test, what) in GOALS else {}))

    async def get(self, path: str) -> bytes:
        """Ask the admin port."""
        with await asyncio.to_thread(
            urllib.request.urlopen, f"http://127.0.0.1:{self._admin}{path}", None, 30
        ) as answer:
            return answer.read()  # type: ignore[no-any-return]

    async def ready(self) -> None:
        """Wait until every provider takes work."""
        await self._until(lambda found: _ready(found) == SLOTS, "all providers are ready")

    async def settled(self, in_flight: int, queued: int) -> None:
        """Wait until the pool holds so much."""
        wanted = (in_flight, queued)
        await self._until(lambda found: _load(found) == wanted, f"{in_flight} run and {queued} wait")

    async def _until(self, holds: Callable[[Row], bool], what: str) -> None:
        until = time.monotonic() + PATIENCE
        while not holds(found := json.loads(await self.get("/status"))):
            if time.monotonic() > until:
                raise NotUp(f"never: {what} ({_ready(found)} providers are ready, {found['totals']})")
            await asyncio.sleep(0.2)

    def memory(self) -> float:
        """Of the Edge, in KB."""
        return memory_of([self._edge]) * 1024

    async def hand_overs(self, count: int, length: int, *, chunks: int = 0) -> float:
        """So many at this length of the line; returns the Edge's CPU for each, in microseconds."""
        delays = []
        await asyncio.to_thread(await_calm)
        before = cpu_of(self._edge)
        for _ in range(count):
            due = time.perf_counter() + PACE
            self._nodes.chunk(chunks)
            delays.append(await self._nodes.hand_over() * 1e3)
            await self.clients.ask()
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        cpu = (cpu_of(self._edge) - before) / count * 1e6
        live = f", {round(chunks / PACE / 100) * 100} chunks/s" if chunks else ""
        cuts = statistics.quantiles(delays, n=100, method="inclusive")
        self.tell("hand-over", f"p50, {length} waiting{live}", cuts[49], "ms")
        self.tell("hand-over", f"p99, {length} waiting{live}", cuts[98], "ms")
        self.tell("hand-over", f"worst, {length} waiting{live}", max(delays), "ms")
        return cpu

    async def pages(self, length: int) -> None:
        """How long the pages take while so many wait."""
        for test, path in (("status", "/status"), ("metrics", "/metrics")):
            times = []
            for _ in range(15):
                begun = time.perf_counter()
                await self.get(path)
                times.append((time.perf_counter() - begun) * 1e3)
                await asyncio.sleep(0.05)
            self.tell(test, f"{path}, {length} waiting, median", statistics.median(times), "ms")
            self.tell(test, f"{path}, {length} waiting, worst", max(times), "ms")


def _load(status: Row) -> tuple[int, int]:
    return status["totals"]["in_flight"], status["totals"]["queued"]


def _ready(status: Row) -> int:
    return sum(provider["state"] == "ready" for provider in status["provider_snapshots"])


async def measure(folder: Path, hand_overs: int) -> list[Row]:
    """Start an Edge, fill it, and measure at each length of the line."""
    ports, children = free_ports(3), Children(folder)
    path = folder / "edge.yaml"
    path.write_text(config(*ports), encoding="utf-8")
    argv = [sys.executable, "-m", "iop.commands.edge", "--config", str(path), "serve", "--log-level", "warning"]
    edge = children.spawn(argv, {"PYTHONPATH": str(ROOT / "runtime")}, "edge")
    nodes = Nodes(ports[1])
    links: asyncio.Future[None] | None = None
    try:
        await _served(ports[2])
        links = asyncio.ensure_future(nodes.serve())
        return await _all(Measure(edge.pid, ports, nodes), hand_overs)
    finally:
        children.stop()
        if links is not None:
            links.cancel()
            await asyncio.gather(links, return_exceptions=True)


async def _all(measure: Measure, count: int) -> list[Row]:
    await measure.ready()
    idle = measure.memory()
    await measure.clients.ask(SLOTS, stream=True)
    await measure.settled(SLOTS, 0)
    streams = measure.memory()
    measure.tell("memory", "of the Edge, 1000 providers, idle", idle / 1024, "MB")
    measure.tell("memory", "of the Edge, for each open stream", (streams - idle) / SLOTS, "KB")
    costs, there = [], 0
    for length in LENGTHS:
        before = measure.memory()
        await measure.clients.ask(length - there)
        await measure.settled(SLOTS, length)
        grown, there = (measure.memory() - before) / (length - there), length
        await measure.hand_overs(50, length)  # the Edge has met such requests before
        del measure.rows[-3:]
        costs.append(await measure.hand_overs(count, length))
        measure.tell("cost", f"Edge CPU per hand-over, {length} waiting", costs[-1], "us")
    measure.tell("memory", "of the Edge, for each waiting request", grown, "KB")
    measure.tell("cost", "CPU per hand-over, 10000 : 10 waiting", costs[-1] / costs[0], "times")
    await measure.hand_overs(count, LENGTHS[-1], chunks=CHUNKS_PER_TURN)
    await measure.pages(LENGTHS[-1])
    await measure.settled(SLOTS, LENGTHS[-1])
    measure.clients.leave()
    await measure.settled(0, 0)
    return measure.rows


async def _served(port: int) -> None:
    """Wait until the Edge listens."""
    until = time.monotonic() + PATIENCE
    while not accepts(port):
        if time.monotonic() > until:
            raise NotUp("the Edge does not start")
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
