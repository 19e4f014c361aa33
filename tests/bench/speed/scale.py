"""The scale of the line, measured by `tests.bench.speed.line` in a process of its own, as goals beside the others."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tests.bench.speed.judging import Goal, Part, Verdict
from tests.bench.speed.line import GOALS
from tests.bench.speed.tools import ROOT
from tests.bench.speed.values import Row, Value

MODULE = "tests.bench.speed.line"
PATIENCE = 900


def measure_line(say: Callable[[str], None]) -> tuple[list[Row], list[Verdict]]:
    """Run it; returns its rows (peer `line`) and what it says of its goals.

    It prints a JSON object a line: `test`, `what`, `value`, `unit`, and perhaps `goal`, the most that is well. One that
    did not come to its end measured no goal, whatever it printed before: each is told as not measured, with the reason.
    """
    say("the line: ten thousand that wait")
    rows, trouble, detail = _run()
    for row in rows:
        say(f"line           {row['test']:13} {row['what']}: {row['value']} {row['unit']}")
    if not trouble:
        return rows, [verdict_of(row) for row in rows if row.get("goal") is not None]
    reason = f"{MODULE}: {trouble}{f': {detail}' if detail else ''}"
    say(reason)
    left_out = {"test": "left out", "peer": "line", "reason": reason}
    return [*rows, left_out], [_unmeasured(test, what, trouble) for test, what in GOALS]


def _run() -> tuple[list[Row], str, str]:
    """Its rows, and why they are no measurement ("" when they are one), with the end of what it said of that."""
    command = [sys.executable, "-m", MODULE, "--json"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return [], f"no end within {PATIENCE} s", ""
    except (OSError, ValueError) as error:
        return [], repr(error), ""
    rows, whole = _rows(done.stdout)
    return rows, _trouble(rows, done.returncode, whole=whole), " | ".join(done.stderr.strip().splitlines())[-300:]


def _rows(output: str) -> tuple[list[Row], bool]:
    """What can be read, and whether that is all."""
    rows: list[Row] = []
    for line in output.splitlines():
        try:
            row = {**json.loads(line), "peer": "line"}
            rows.append(
                {**row, "test": row["test"], "what": row["what"], "unit": row["unit"], "value": row["value"] + 0}
            )
        except (ValueError, TypeError, KeyError):
            return rows, False
    return rows, True


def _trouble(rows: list[Row], code: int, *, whole: bool) -> str:
    """Why it is not a whole measurement; 1 is its code for a missed goal, but Python's for a traceback, too."""
    if code not in {0, 1}:
        return f"exit code {code}"
    if not whole:
        return "what it printed is not JSON"
    said = {(row["test"], row["what"]) for row in rows if row.get("goal") is not None}
    if silent := [" ".join(one) for one in GOALS if one not in said]:
        return f"exit code {code} and nothing of {len(silent)} of {len(GOALS)} goals"
    if code != any(row["value"] > row["goal"] for row in rows if row.get("goal") is not None):
        return f"exit code {code} is not what its rows say"
    return ""


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """One of its rows with a goal, as a goal beside ours."""
    number = Value(float(row["value"]), float(row["value"]), float(row["value"]), 1)
    goal = _goal(row["test"], row["what"], row["unit"], Part(lambda _rows: number, float(row["goal"])))
    return Verdict(goal, (number,), f"{number.value:.2f} {row['unit']}")


def _unmeasured(test: str, what: str, reason: str) -> Verdict:
    goal = _goal(test, what, "", Part(lambda _rows: None, GOALS[test, what]))
    return Verdict(goal, (None,), "-", reason=reason)


def _goal(test: str, what: str, unit: str, part: Part) -> Goal:
    return Goal(f"line: {test} {what.replace(',', '')}", f"{test}: {what}", "speed", unit, (part,))
