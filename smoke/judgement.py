"""What a recorded run came to: each case with its verdicts and void rounds, what stood in the way, the line. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from smoke.facts import judge_answers, judge_fact
from smoke.history import (
    UNREADABLE,
    Blocker,
    Engine,
    Environment,
    Logged,
    Record,
    Request,
    Round,
    Seen,
    Snapshot,
)
from smoke.verdicts import DISRUPTIONS, judge_round, void
from smoke.view import RoundView, Verdict, final_load, maxima


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
        return [view for view in self.rounds if view.round.kind == "capacity"]

    @property
    def pictured(self) -> list[RoundView]:
        """The rounds that are the picture of the run: its bursts; of a run without one, what it took away."""
        return self.bursts or [view for view in self.rounds if view.round.kind in DISRUPTIONS]

    @property
    def rounds(self) -> list[RoundView]:
        """The round that counts of each case that has one."""
        return [case.judged for case in self.cases.values() if case.judged is not None]

    @property
    def reasons(self) -> dict[str, str]:
        """Each blocker's reason once, with the case that met it first."""
        found: dict[str, str] = {}
        for blocker in self.blockers:
            found.setdefault(blocker.reason, blocker.case)
        return found


class NoEnvironment(Exception):
    """The history does not say what the environment declares, so there is nothing to measure by."""


def judge(records: Sequence[Record]) -> Judgement:
    """Judge merged records. Pure. Raises NoEnvironment."""
    env = next((record for record in records if isinstance(record, Environment)), None)
    if env is None:
        raise NoEnvironment(_foreign(records))
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


def _foreign(records: Sequence[Record]) -> str:
    """Why there is nothing to measure by: lines that are no records, or a history without its beginning."""
    if len(records) == 1 and isinstance(records[0], Blocker) and records[0].case == UNREADABLE:
        return f"no line of the history is a record of smoke; {records[0].reason}"
    return "the history has no Environment record: its beginning is missing, or it is not one of a smoke run"


def closing_line(judgement: Judgement, outcomes: Sequence[str]) -> str:
    """The line that sums up a run: `capacity 10/10 · queued max 1 · final 0/0 · 13 passed`; worst numbers first."""
    total = judgement.env.capacity
    away = [view for view in judgement.rounds if view.round.kind in DISRUPTIONS]
    if away and not judgement.bursts:
        in_flight, queued = max(final_load(view) for view in away)
        numbers = f"disrupted {', '.join(view.round.case for view in away)} · final {in_flight}/{queued}"
    elif judgement.bursts:
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
    words["blocked"] = len(judgement.reasons)
    told = [f"{number} {word}" for word, number in words.items() if number or word == "passed"]
    if not judgement.ok and not words["failed"] and not words["blocked"]:
        told.insert(0, "not proved")
    return f"{numbers} · {', '.join(told)}"
