"""The scale of the line, measured by `tests.bench.speed.line` in a process of its own, as goals beside the others."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from tests.bench.speed.judging import Goal, Part, Verdict
from tests.bench.speed.tools import ROOT
from tests.bench.speed.values import Row, Value

MODULE = "tests.bench.speed.line"
PATIENCE = 900


def measure_line(say: Callable[[str], None], module: str = MODULE) -> tuple[list[Row], list[Verdict]]:
    """Run it; returns its rows (peer `line`) and what it says of its goals. Nothing where it is not there.

    It prints one JSON object: `rows`, and `goals`, each with `name`, `measure`, `value`, `mark`, and, where they are
    not the usual, `unit`, `kind`, `at_least`, `low`, `high`, `rounds`.
    """
    if find_spec(module) is None:
        return [], []
    say("the line: ten thousand that wait")
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, "--json"],
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=ROOT,
        )
        said = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = f"{module} said no JSON: {error!r}"
        say(reason)
        return [{"test": "left out", "peer": "line", "reason": reason}], []
    return [{**row, "peer": "line"} for row in said["rows"]], [verdict_of(one) for one in said["goals"]]


def verdict_of(told: Mapping[str, Any]) -> Verdict:
    """One of its goals as one of ours."""
    value = told.get("value")
    number = None if value is None else Value(
        float(value), float(told.get("low", value)), float(told.get("high", value)), int(told.get("rounds", 1))
    )  # fmt: skip
    unit, digits = str(told.get("unit", "")), 2
    part = Part(lambda _rows: number, float(told["mark"]), at_least=bool(told.get("at_least")), digits=digits)
    goal = Goal(str(told["name"]), str(told.get("measure", told["name"])), told.get("kind", "speed"), unit, (part,))
    shown = "-" if number is None else f"{number.value:.{digits}f}{f' {unit}' if unit not in {'', 'x'} else ''}"
    return Verdict(goal, (number,), shown)
