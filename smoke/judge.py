"""Judge a recorded run: `python -m smoke.judge DIR` says again, from the history alone, what was proved.

Exit codes: 0 all proved, 1 something was not, 2 no such history.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from smoke.facts import judge_answers, judge_fact
from smoke.history import (
    MERGED,
    Blocker,
    Engine,
    Environment,
    Logged,
    Record,
    Request,
    Round,
    Seen,
    Snapshot,
    read,
)
from smoke.verdicts import RoundView, Verdict, final_load, judge_round, maxima, provider_maxima, void


@dataclass(slots=True)
class CaseResult:
    """What one case came to. `voids` = (round id, reason) of void rounds, `judged` = the round that counts."""

    case: str
    verdicts: list[Verdict] = field(default_factory=list)
    voids: list[tuple[str, str]] = field(default_factory=list)
    judged: RoundView | None = None

    @property
    def ok(self) -> bool:
        """Proved: at least one verdict, and all of them good. Void rounds alone prove nothing."""
        return bool(self.verdicts) and all(verdict.ok for verdict in self.verdicts)


@dataclass(slots=True)
class Judgement:
    """What a whole run came to."""

    env: Environment
    cases: dict[str, CaseResult]
    blockers: list[Blocker]
    status: dict[str, object] | None = None  # the last status of the run: versions, releases, states

    @property
    def ok(self) -> bool:
        """No blocker, and every case that ran is proved."""
        return not self.blockers and bool(self.cases) and all(case.ok for case in self.cases.values())

    @property
    def bursts(self) -> list[RoundView]:
        """The judged capacity rounds."""
        views = [case.judged for case in self.cases.values() if case.judged is not None]
        return [view for view in views if view.round.kind == "capacity"]


class NoEnvironment(Exception):
    """The history does not say what the environment declares, so there is nothing to measure by."""


def judge(records: Sequence[Record]) -> Judgement:
    """Judge merged records. Pure. Raises NoEnvironment."""
    env = next((record for record in records if isinstance(record, Environment)), None)
    if env is None:
        raise NoEnvironment("the history has no Environment record")
    cases: dict[str, CaseResult] = {}

    def result(case: str) -> CaseResult:
        return cases.setdefault(case, CaseResult(case))

    for view in views(env, records):
        why = void(view)
        found = result(view.round.case)
        if why is not None:
            found.voids.append((view.round.round_id, why.reason))
        else:
            found.judged, found.verdicts = view, judge_round(view)
    single: dict[str, list[Request]] = defaultdict(list)
    for record in records:
        if isinstance(record, Seen):
            result(record.case).verdicts += judge_fact(env, record)
        elif isinstance(record, Request) and record.round_id is None:
            single[record.case].append(record)
    for case, requests in single.items():
        result(case).verdicts += judge_answers(env, requests)
    blockers = [record for record in records if isinstance(record, Blocker)]
    statuses = [record.status for record in records if isinstance(record, Snapshot)]
    return Judgement(env, cases, blockers, statuses[-1] if statuses else None)


def views(env: Environment, records: Sequence[Record]) -> list[RoundView]:
    """Gather each round's records, in order of the rounds."""
    requests: dict[str, list[Request]] = defaultdict(list)
    snapshots: dict[str, list[Snapshot]] = defaultdict(list)
    events: dict[str, list[dict[str, object]]] = defaultdict(list)
    engines: dict[str, list[Engine]] = defaultdict(list)
    for record in records:
        if isinstance(record, Request) and record.round_id is not None:
            requests[record.round_id].append(record)
        elif isinstance(record, Snapshot):
            snapshots[record.round_id].append(record)
        elif isinstance(record, Logged):
            events[record.round_id].append(record.event)
        elif isinstance(record, Engine):
            engines[record.round_id].append(record)
    return [
        RoundView(env, one, *(tuple(part[one.round_id]) for part in (requests, snapshots, events, engines)))  # type: ignore[arg-type]  # four tuples, one per field
        for one in records
        if isinstance(one, Round)
    ]


def closing_line(judgement: Judgement, outcomes: Sequence[str]) -> str:
    """The line that sums up a run: `capacity 10/10 · queued max 1 · final 0/0 · 13 passed`; worst numbers first."""
    total = judgement.env.capacity
    if judgement.bursts:
        top = max((maxima(view)[0] for view in judgement.bursts), key=lambda seen: abs(seen - total))
        waiting = max(maxima(view)[1] for view in judgement.bursts)
        in_flight, queued = max(final_load(view) for view in judgement.bursts)
        numbers = f"capacity {top}/{total} · queued max {waiting} · final {in_flight}/{queued}"
    else:
        numbers = f"capacity ?/{total} · queued max ? · final ?/?"
    words = {
        "failed": outcomes.count("failed"),
        "passed": outcomes.count("passed"),
        "skipped": outcomes.count("skipped"),
    }
    words["blocked"] = len({blocker.reason for blocker in judgement.blockers})
    told = [f"{number} {word}" for word, number in words.items() if number or word == "passed"]
    if not judgement.ok and not words["failed"] and not words["blocked"]:
        told.insert(0, "not proved")
    return f"{numbers} · {', '.join(told)}"


def in_words(judgement: Judgement) -> list[str]:
    """One line per verdict, void round and blocker, plainly."""
    lines = []
    for case in judgement.cases.values():
        lines.append(f"{'proved' if case.ok else 'NOT PROVED'}: {case.case}")
        lines += [f"    void: {round_id}: {reason}" for round_id, reason in case.voids]
        lines += [f"    {'ok' if v.ok else 'FAILED'}: {v.name}: {v.detail}" for v in case.verdicts]
        if case.judged is not None:
            peaks = ", ".join(f"{name} {peak}" for name, peak in provider_maxima(case.judged).items())
            lines.append(f"    peaks: {peaks}")
    return lines + [f"BLOCKER: {blocker.case}: {blocker.reason}" for blocker in judgement.blockers]


def main(argv: Sequence[str] | None = None) -> int:
    """Judge the run in a folder and print what it proved."""
    parser = argparse.ArgumentParser(prog="python -m smoke.judge", description=main.__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="build/<env>-runtime/smoke/<run>, with history.jsonl")
    folder: Path = parser.parse_args(argv).folder
    try:
        judgement = judge(read(folder / MERGED))
    except (OSError, NoEnvironment) as error:
        sys.stderr.write(f"{folder}: {error}\n")
        return 2
    outcomes = ["passed" if case.ok else "failed" for case in judgement.cases.values()]
    head = [judgement.env.banner] if judgement.env.banner else []
    sys.stdout.write("\n".join([*head, *in_words(judgement), closing_line(judgement, outcomes)]) + "\n")
    return 0 if judgement.ok else 1


if __name__ == "__main__":
    sys.exit(main())
