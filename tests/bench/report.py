"""The report of a chaos run, in Markdown."""

from collections import Counter
from collections.abc import Sequence

from tests.bench.judge import Judgement, last_line
from tests.bench.plan import Fault


def report(judgement: Judgement, schedule: Sequence[Fault]) -> str:
    """The run's line, what was found, how requests ended, and each fault as planned and as it was."""
    run, begun = judgement.run, judgement.run.begun
    found = [f"- `{one}`" for one in judgement.findings] or ["Nothing."]
    ends = Counter((one.outcome, one.code or "") for one in run.answers)
    done = {one.number: one for one in run.faults}
    lines = [
        f"# Chaos, seed {begun.seed}", "", last_line(judgement), "", f"Again: `{begun.command}`", "",
        "## Found", "", *found, "",
        "## Notes", "", *(f"- {one}" for one in judgement.notes), "",
        "## How requests ended", "", "| end | code | requests |", "|---|---|---|",
        *(f"| {outcome} | {code} | {count} |" for (outcome, code), count in sorted(ends.items())), "",
        "## Faults", "", "| # | kind | target | planned | began | healed |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for fault in schedule:
        was = done.get(fault.number)
        times = ("", "") if was is None else (f"{was.began:.2f} s", f"{was.ended:.2f} s")
        planned = f"{fault.at:.2f} s for {fault.seconds:.2f} s"
        lines.append(f"| {fault.number} | {fault.kind} | {fault.target} | {planned} | {times[0]} | {times[1]} |")
    return "\n".join(lines) + "\n"
