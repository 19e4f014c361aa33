"""Judge a recorded chaos run: `python -m tests.bench.judge DIR` says again, from the history alone, what was proved.

Exit codes: 0 all proved, 1 something was not, 2 no such history.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iop.domain.law import violations_of_status
from tests.bench.causes import unexplained
from tests.bench.ledger import lost_and_twice
from tests.bench.record import HISTORY, read
from tests.bench.slots import over_capacity, over_offered
from tests.bench.verdict import Finding
from tests.bench.view import NoRun, View, view


@dataclass
class Judgement:
    """What a run came to."""

    run: View
    findings: list[Finding]
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing was found."""
        return not self.findings

    def count(self, *rules: str) -> int:
        """Findings of these rules."""
        return sum(one.rule in rules for one in self.findings)


def judge(run: View) -> Judgement:
    """Hold a run against everything that is promised. Pure."""
    peaks, notes = over_offered(run)
    slowest, late = recovery(run)
    findings = [
        *(Finding("run", one.t, one.text) for one in run.troubles),
        *(Finding("fault", one.t, f"{one.kind} {one.target}: {one.trouble}") for one in run.faults if one.trouble),
        *unexplained(run), *lost_and_twice(run), *over_capacity(run), *peaks, *law(run), *late, *final(run),
    ]  # fmt: skip
    notes.append(f"slowest recovery {slowest:.1f} s of {run.begun.recovery_s:.0f} s allowed")
    return Judgement(run, sorted(findings, key=lambda one: one.t), notes)


def law(run: View) -> list[Finding]:
    """The conservation law, and no anomaly, in every status."""
    found = []
    for one in run.statuses:
        found += [Finding("law", one.t, text) for text in violations_of_status(one.status)]
        if any(one.status["anomalies"].values()):
            found.append(Finding("anomaly", one.t, str(one.status["anomalies"])))
    return found


def recovery(run: View) -> tuple[float, list[Finding]]:
    """How long providers took to be ready after a fault of theirs was healed: the slowest, and those beyond the bound.

    A provider that is hit again before is judged by the later fault.
    """
    slowest, found = 0.0, []
    for provider in run.begun.slots:
        faults = sorted(run.touching([provider]), key=lambda one: one.began)
        for fault in faults:
            ready = next((s.t for s in run.statuses if s.t >= fault.ended and _is_ready(s.status, provider)), None)
            until = fault.ended + run.begun.recovery_s if ready is None else ready
            if any(
                other is not fault
                and fault.began <= other.ended
                and other.began <= until
                and other.ended >= fault.ended
                for other in faults
            ):
                continue
            took = (until if ready is not None else float("inf")) - fault.ended
            if took > run.begun.recovery_s:
                words = f"{provider} was not ready {run.begun.recovery_s:.0f} s after #{fault.number} {fault.kind}"
                found.append(Finding("recovery", fault.ended, words))
            else:
                slowest = max(slowest, took)
    return slowest, found


def _is_ready(status: dict[str, object], provider: str) -> bool:
    snapshots = status["provider_snapshots"]
    assert isinstance(snapshots, list)
    return any(one["provider_id"] == provider and one["state"] == "ready" for one in snapshots)


def final(run: View) -> list[Finding]:
    """At the end: nothing in flight, nobody in line, all ready, and each engine idle with counters that add up."""
    if run.ended is None or not run.statuses:
        return [Finding("final", 0.0, "the run has no end" if run.ended is None else "no status was ever seen")]
    last = run.statuses[-1]
    totals, providers = last.status["totals"], last.status["provider_snapshots"]
    found = []
    if totals["in_flight"] or totals["queued"]:
        found.append(f"{totals['in_flight']}/{totals['queued']} at the end")
    found += [
        f"{one['provider_id']} is {one['state']} ({one['reason']})" for one in providers if one["state"] != "ready"
    ]
    found += [
        f"{n['id']} runs {n['direct']['in_flight']} direct" for n in last.status["nodes"] if n["direct"]["in_flight"]
    ]
    missing = set(run.begun.slots) - {one["provider_id"] for one in providers}
    found += [f"{provider} is not declared any more" for provider in sorted(missing)]
    ends = {one.provider: one for one in run.engines if one.final}
    found += [
        f"the engine of {provider} said nothing at the end" for provider in run.begun.slots if provider not in ends
    ]
    for provider, one in ends.items():
        stats = one.stats
        if stats["running"] or stats["waiting"] or stats["started"] > stats["completed"] + stats["cancelled"]:
            found.append(f"the engine of {provider} at the end: {stats}")
    return [Finding("final", last.t, text) for text in found]


def last_line(judgement: Judgement) -> str:
    """The run in one line."""
    run = judgement.run
    outcomes = Counter(one.outcome for one in run.answers)
    errors = sum(outcomes[one] for one in ("error", "cut", "refused"))
    over, anomalies = judgement.count("over", "offered"), judgement.count("anomaly")
    totals = run.statuses[-1].status["totals"] if run.statuses else {"in_flight": "?", "queued": "?"}
    others = len(judgement.findings) - judgement.count("lost", "twice", "over", "offered", "anomaly")
    return (
        f"chaos seed {run.begun.seed} · {run.begun.minutes:g} min · {len(run.faults)} faults · "
        f"{len(run.answers)} requests: {outcomes['answered']} answered, {errors} clear errors, "
        f"{outcomes['left']} left, "
        f"{judgement.count('lost')} lost, {judgement.count('twice')} twice · "
        f"{f'OVER {over} times' if over else 'never over'} · final {totals['in_flight']}/{totals['queued']} · "
        f"anomalies {anomalies}" + (f" · {others} other findings" if others else "")
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Judge the run in a folder and print what it proved."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.judge", description=main.__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="build/chaos/<run>, with history.jsonl")
    folder: Path = parser.parse_args(argv).folder
    try:
        judgement = judge(view(read(folder / HISTORY)))
    except (OSError, ValueError, NoRun) as error:
        sys.stderr.write(f"{folder}: {error}\n")
        return 2
    lines = [*map(str, judgement.findings), *judgement.notes, last_line(judgement)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if judgement.ok else 1


if __name__ == "__main__":
    sys.exit(main())
