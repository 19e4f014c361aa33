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

    It prints a JSON object a line: `test`, `what`, `value`, `unit`, and perhaps `goal`, the most that is well.
    """
    if find_spec(module) is None:
        return [], []
    say("the line: ten thousand that wait")
    command = [sys.executable, "-m", module, "--json"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
        rows = [{**json.loads(line), "peer": "line"} for line in done.stdout.splitlines()]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        rows, reason = [], f"{module}: {error!r}"
    else:
        reason = f"{module} measured nothing: {done.stderr.strip()[-300:]}"
    if not rows:
        say(reason)
        return [{"test": "left out", "peer": "line", "reason": reason}], []
    for row in rows:
        say(f"line           {row['test']:13} {row['what']}: {row['value']} {row['unit']}")
    return rows, [verdict_of(row) for row in rows if row.get("goal") is not None]


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """One of its rows with a goal, as a goal beside ours."""
    number = Value(float(row["value"]), float(row["value"]), float(row["value"]), 1)
    part = Part(lambda _rows: number, float(row["goal"]))
    name = f"line: {row['test']} {row['what'].replace(',', '')}"
    goal = Goal(name, f"{row['test']}: {row['what']}", "speed", row["unit"], (part,))
    return Verdict(goal, (number,), f"{number.value:.2f} {row['unit']}")
