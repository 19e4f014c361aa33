"""A run in one line, as data, and as an exit code."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.bench.speed.judging import Verdict


def one_line(verdicts: Sequence[Verdict]) -> str:
    """Each goal with its number and whether it is reached; only what was not to be measured is left out."""
    shown = [one for one in verdicts if one.measured or one.planned]
    parts = [_told(one) for one in shown]
    if noisy := [one.goal.name for one in shown if not one.quiet]:
        parts.append(f"the machine was not quiet: {', '.join(noisy)} had no undisturbed round")
    return " · ".join(parts)


def _told(one: Verdict) -> str:
    """As in `cancel 1.9/2.3 ms pass`."""
    if one.measured:
        return f"{one.goal.name} {one.told} {one.word}"
    return f"{one.goal.name} {one.word}{f' ({one.reason})' if one.reason else ''}"


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """1 when a goal of correctness is missed."""
    return int(any(one.fatal for one in verdicts))


def as_data(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """For other programs: `{"ok", "quiet", "goals": [...]}`; `ok` is the exit code's view."""
    goals = [
        {
            "name": one.goal.name, "measure": one.goal.measure, "kind": one.goal.kind, "unit": one.goal.unit,
            "told": one.told, "verdict": one.word, "quiet": one.quiet, "fatal": one.fatal,
            "planned": one.planned, "reason": one.reason,
            "parts": [
                {"mark": part.mark, "at_least": part.at_least, **({} if value is None else asdict(value))}
                for part, value in zip(one.goal.parts, one.values, strict=True)
            ],
        }
        for one in verdicts
    ]  # fmt: skip
    return {"ok": not exit_code(verdicts), "quiet": all(one.quiet for one in verdicts), "goals": goals}
