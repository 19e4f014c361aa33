"""Faults under load, by a seed: `make chaos`.

    python -m tests.bench.chaos [--minutes 3] [--seed S] [--lab]

Clients of every sort ask a whole installation again and again while its parts are killed, frozen, cut off, slowed down,
drained and resized. The schedule follows from the seed alone. Everything that was seen goes to build/chaos/<run>/, and
is judged there: exit code 0 when nothing was found, 1 when something was, 2 for wrong usage, 3 when this machine cannot
carry the lab.
"""

import argparse
import asyncio
import random
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.judge import Judgement, judge, last_line
from tests.bench.plan import LOOPBACK, Fault, plan, replay
from tests.bench.record import HISTORY, Begun, History, Trouble
from tests.bench.report import report
from tests.bench.run import ChaosRun
from tests.bench.site import RECOVERY_S, ChaosCluster, Loopback
from tests.bench.view import view
from tests.cluster.harness import NODES, ROOT

Tell = Callable[[str], None]


def main(argv: Sequence[str] | None = None) -> int:
    """Run it as a command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.chaos", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=_minutes, default=3.0, metavar="N", help="of load with faults (3)")
    parser.add_argument("--seed", type=int, metavar="S", help="of an earlier run, to see its schedule again")
    parser.add_argument("--lab", action="store_true", help="on three booted hosts of a lab of its own (Linux, root)")
    parser.add_argument("--plan", action="store_true", help="print the schedule and do nothing")
    options = parser.parse_args(argv)
    seed = random.SystemRandom().randrange(1, 10**6) if options.seed is None else options.seed
    if options.lab:
        from tests.bench.lab import main_lab  # the lab's tools are of Linux only

        return main_lab(seed, options.minutes, say, only_plan=options.plan)
    targets = {
        "node": list(NODES), "provider": [p for p, _ in NODES.values()], "edge": ["edge"], "control": ["control"],
    }  # fmt: skip
    schedule = plan(seed, options.minutes * 60, LOOPBACK, targets)
    if options.plan:
        say("\n".join(map(str, schedule)))
        return 0
    return cancellable(loopback(seed, options.minutes, schedule))


def cancellable(work: "asyncio.coroutines.Coroutine[object, object, int]") -> int:
    """Run it; Ctrl-C and SIGTERM end it in order, so that nothing stays behind."""

    async def outer() -> int:
        task = asyncio.ensure_future(work)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await task

    try:
        return asyncio.run(outer())
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("stopped; nothing was judged")
        return 130


async def loopback(seed: int, minutes: float, schedule: Sequence[Fault]) -> int:
    """Run on processes of this machine; returns the exit code."""
    folder = run_folder(seed)
    (folder / "cluster").mkdir()
    command = replay(seed, minutes, lab=False)
    say(f"chaos seed {seed} · {minutes:g} min · {len(schedule)} faults · again: {command}")
    made = ChaosCluster(folder / "cluster")
    slots, nodes = dict(NODES.values()), {node: provider for node, (provider, _) in NODES.items()}
    begun = Begun(0.0, seed, minutes, command, lab=False, slots=slots, nodes=nodes, recovery_s=RECOVERY_S)
    history = History(folder / HISTORY)
    try:
        await made.start()
        run = ChaosRun(begun, Loopback(made), schedule, history, say)
        made.seen = run.offered
        await run.run()
        try:
            await made.close()
        except AssertionError as error:  # an exit code, a leaked connection, or a fault in a log
            history.add(Trouble(run.clock(), f"at the end of the processes: {error}"[:4000]))
    finally:
        made.thaw_all()
        await made.client.aclose()
        await asyncio.gather(*(p.stop() for p in made.processes.values() if p.child.returncode is None))
        await made.close_fronts()
        (folder / "cluster" / "admin.token").unlink(missing_ok=True)
        history.close()
    return conclude(judge(view(history.records)), schedule, folder)


def run_folder(seed: int) -> Path:
    """A new folder for what a run sees."""
    folder = ROOT / "build" / "chaos" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{seed}"
    folder.mkdir(parents=True)
    return folder


def conclude(judgement: Judgement, schedule: Sequence[Fault], folder: Path) -> int:
    """Write the report, print what was found and the one line; returns the exit code."""
    (folder / "report.md").write_text(report(judgement, schedule), encoding="utf-8")
    for one in judgement.findings[:40]:
        say(str(one))
    if len(judgement.findings) > 40:
        say(f"… and {len(judgement.findings) - 40} more")
    say("\n".join(judgement.notes))
    say(f"report: {folder / 'report.md'}")
    if not judgement.ok:
        say(f"again: {judgement.run.begun.command}")
    say(last_line(judgement))
    return 0 if judgement.ok else 1


def say(text: str) -> None:
    """A line at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _minutes(text: str) -> float:
    if not 0 < (value := float(text)) <= 120:
        raise ValueError
    return value


if __name__ == "__main__":
    sys.exit(main())
