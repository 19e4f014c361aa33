"""We beside what people would pick instead, measured in turn in one run: `make bench`, `make bench-quick`.

    python -m tests.bench.speed.compare [--quick] [--json] [--peers A,B] [--tests A,B] [--rounds N]

Fake engines and a load tool in C, on loopback. Peers are asked in turn, A B C … C B A; ratios are taken round by round,
and their medians over the rounds in which other programs left the machine alone. The last line tells each goal. Exit
codes: 0, 1 when a goal of correctness is missed (over capacity, unanswered, forgotten or late to leave), 2 for wrong
usage, 3 when this machine cannot carry the benchmark, 130 when stopped.
"""

import argparse
import itertools
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from tests.bench.speed import plans
from tests.bench.speed.facts import machine, versions
from tests.bench.speed.goals import GOALS
from tests.bench.speed.installs import install
from tests.bench.speed.judging import Verdict, judge
from tests.bench.speed.peers import PEERS
from tests.bench.speed.plans import Plan, take_turns
from tests.bench.speed.plot import picture
from tests.bench.speed.rig import NotUp, Rig
from tests.bench.speed.scale import measure_line
from tests.bench.speed.session import Session
from tests.bench.speed.summing import as_data, exit_code, one_line
from tests.bench.speed.tables import page
from tests.bench.speed.tools import BENCH, NoTool, built
from tests.bench.speed.values import Rows


def main(argv: Sequence[str] | None = None) -> int:
    """Run it as a command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.speed.compare", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--quick", action="store_true", help="us, nginx-2hop and haproxy in about two minutes")
    parser.add_argument("--json", action="store_true", help="print the goals as JSON; progress goes to stderr")
    parser.add_argument("--peers", type=_names(PEERS), metavar="A,B", help=f"some of {', '.join(PEERS)}")
    some = f"some of {', '.join(plans.MEASURES)}; without those of correctness it ends with 1"
    parser.add_argument("--tests", type=_names(plans.MEASURES), metavar="A,B", help=some)
    parser.add_argument("--rounds", type=int, metavar="N", help="of each measure that is repeated (5; quick: 3)")
    options = parser.parse_args(argv)
    plan = (plans.QUICK if options.quick else plans.FULL).narrowed(options.peers, options.tests, options.rounds)
    say = _say_to(sys.stderr.write if options.json else sys.stdout.write)
    signal.signal(signal.SIGTERM, _end)
    try:
        verdicts = run(plan, say, whole=not options.quick)
    except KeyboardInterrupt:
        say("stopped; nothing was judged")
        return 130
    except (NoTool, NotUp) as error:
        say(str(error))
        return 3
    if options.json:
        sys.stdout.write(json.dumps(as_data(verdicts)) + "\n")
    else:
        say(one_line(verdicts))
    return exit_code(verdicts)


def run(plan: Plan, say: Callable[[str], None], *, whole: bool) -> list[Verdict]:
    """Measure (whole: the scale of the line, too), write the results, stop everything. Raises NoTool, NotUp."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65535, hard) if hard > 0 else 65535, hard))
    tools = built()
    out = begun(BENCH, f"{datetime.now(UTC):%Y%m%d-%H%M%S}")
    rig = Rig(tools, BENCH / f"tmp-{out.stem}-{os.getpid()}")
    session = Session(rig, out, say, plan.seconds, plan.connections, plan.patience)
    try:
        missing = install(plan.peers, say)
        for peer, reason in missing.items():
            session.add({"test": "left out", "peer": peer, "reason": reason})
        rig.start_engines()
        take_turns(session, plan.without(missing))
    finally:
        rig.close()
        shutil.rmtree(rig.folder, ignore_errors=True)
    more, scale = measure_line(say) if whole else ([], [])
    for row in more:
        session.add(row)
    rows = Rows(session.rows)
    verdicts = [*judge(rows, GOALS, plan.measures), *scale]
    known = versions([one for one in plan.peers if one in rows.peers()])
    session.out.with_suffix(".md").write_text(page(rows, verdicts, machine(), known), encoding="utf-8")
    session.out.with_suffix(".svg").write_text(picture(rows, verdicts), encoding="utf-8")
    say(f"results: {session.out.with_suffix('')}.md, .svg, .jsonl")
    return verdicts


def begun(folder: Path, name: str) -> Path:
    """A new file `<name>.jsonl` of this run alone; with a number after the name where another run has that one."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        path = folder / f"{name}{f'-{number}' if number > 1 else ''}.jsonl"
        try:
            path.open("x", encoding="utf-8").close()
        except FileExistsError:
            continue
        return path
    raise AssertionError("unreachable")


def _say_to(write: Callable[[str], int]) -> Callable[[str], None]:
    def say(text: str) -> None:
        write(f"{text}\n")
        sys.stdout.flush()

    return say


def _end(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _names(known: Collection[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [one.strip() for one in text.split(",") if one.strip()]
        if unknown := [one for one in names if one not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main())
