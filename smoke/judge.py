"""Judge a recorded run again, from its history alone: `python -m smoke.judge DIR`.

Exit codes: 0 all proved, 1 something was not (a history that was cut off included), 2 no history that can be judged.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smoke import evidence
from smoke.history import MERGED, UNREADABLE, Blocker, Record, Reported, cut_short, read
from smoke.judgement import Judgement, NoEnvironment, closing_line, judge
from smoke.view import final_load, maxima, provider_maxima


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


def as_data(judgement: Judgement, outcomes: dict[str, str], line: str) -> dict[str, Any]:
    """The same for a program."""
    cases = [
        {
            "case": case.case,
            "ok": case.ok,
            "verdicts": [{"name": one.name, "ok": one.ok, "detail": one.detail} for one in case.verdicts],
            "void": [{"round": round_id, "reason": reason} for round_id, reason in case.voids],
        }
        for case in judgement.cases.values()
    ]
    bursts = []
    for view in judgement.bursts:
        (top, waiting), (in_flight, queued) = maxima(view), final_load(view)
        bursts.append(
            {
                "case": view.round.case,
                "requests": len(view.round.request_ids),
                "max": {"in_flight": top, "queued": waiting, "providers": provider_maxima(view)},
                "final": {"in_flight": in_flight, "queued": queued},
            }
        )
    env = judgement.env
    return {
        "ok": judgement.ok and "failed" not in outcomes.values(),
        "line": line,
        "banner": env.banner,
        "environment": env.env,
        "capacity": env.capacity,
        "bursts": bursts,
        "cases": cases,
        "blockers": [{"case": case, "reason": reason} for reason, case in judgement.reasons.items()],
        "tests": outcomes,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Judge the run in a folder and print what it proved."""
    parser = argparse.ArgumentParser(prog="python -m smoke.judge", description=main.__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="build/<env>-runtime/smoke/<run>, with history.jsonl")
    parser.add_argument("--report", action="store_true", help="also write report.md and report.html anew")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    folder: Path = options.folder.parent if options.folder.name == MERGED else options.folder
    try:
        records = read(folder / MERGED)
        judgement = judge(records)
        judgement.blockers += lacking(records)
        outcomes = outcomes_of(records, judgement)
        line = closing_line(judgement, list(outcomes.values()))
        if options.report:
            evidence.write(folder, judgement, outcomes, line)
    except (OSError, NoEnvironment) as error:
        sys.stderr.write(f"{folder}: {error}\n")
        return 2
    told = as_data(judgement, outcomes, line)
    head = [judgement.env.banner] if judgement.env.banner else []
    text = json.dumps(told, indent=2) if options.json else "\n".join([*head, *in_words(judgement), line])
    sys.stdout.write(text + "\n")
    return 0 if told["ok"] else 1


def outcomes_of(records: Sequence[Record], judgement: Judgement) -> dict[str, str]:
    """What pytest said of each test; of a history that does not tell, what the verdicts say of each case."""
    told = {record.test: record.outcome for record in records if isinstance(record, Reported)}
    return told or {name: "passed" if case.ok else "failed" for name, case in judgement.cases.items()}


def lacking(records: Sequence[Record]) -> list[Blocker]:
    """The blocker that says that these are not all records of the run, if so."""
    why = cut_short(records)
    return [Blocker(0.0, UNREADABLE, why)] if why else []


if __name__ == "__main__":
    sys.exit(main())
