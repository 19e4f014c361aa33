"""What a goal is, and what a run says about it. Pure.

A goal is of one of two kinds. Correctness: what is counted (never over, all answered, nobody forgotten) holds in each
round or the run has failed; times of leaving clients are medians, and only a machine that others used all the time
excuses them. Of a number that is the worst of several, each of these is excused by noise of its own only: one that was
measured in quiet and is over the mark fails the run, though a noisy one is over it by more. Speed is told and never
fails a run. What was not measured is told so; of correctness, it is a failure too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.bench.speed.values import Asked, Rows, Value

Kind = Literal["correctness", "speed"]


@dataclass(frozen=True, slots=True)
class Part:
    """One number of a goal with its mark. `counted`: an exact count, which no noise of the machine excuses."""

    compute: Callable[[Rows], Value | None]
    mark: float
    at_least: bool = False
    counted: bool = False
    digits: int = 2

    def holds(self, value: Value) -> bool:
        """It reaches its mark."""
        return self._reached(value.value)

    def excused(self, value: Value) -> bool:
        """A miss may be the machine's: others used it all the time, and what was measured in quiet is well."""
        return not (self.counted or value.quiet) and (value.calm is None or self._reached(value.calm))

    def _reached(self, number: float) -> bool:
        return number >= self.mark if self.at_least else number <= self.mark


@dataclass(frozen=True, slots=True)
class Goal:
    """`name` is its word in the line, `measure` what it means, `unit` that of all its parts."""

    name: str
    measure: str
    kind: Kind
    unit: str
    parts: tuple[Part, ...]
    show: Callable[[Rows], str] | None = None

    def needs(self) -> set[tuple[str, str]]:
        """The (measure, peer) it is computed from, found by computing it from nothing: a list by hand would drift."""
        asked = Asked()
        for part in self.parts:
            part.compute(asked)
        return asked.wanted


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run says about a goal. `values`: one per part, None where nothing was measured, perhaps with a `reason`.

    `planned`: the run was to measure it.
    """

    goal: Goal
    values: tuple[Value | None, ...]
    told: str
    planned: bool = True
    reason: str = ""

    @property
    def measured(self) -> bool:
        """Each part has a value."""
        return None not in self.values

    @property
    def passed(self) -> bool:
        """Each part holds."""
        return all(v is not None and part.holds(v) for part, v in zip(self.goal.parts, self.values, strict=True))

    @property
    def quiet(self) -> bool:
        """At least one round of each part was undisturbed."""
        return all(value is None or value.quiet for value in self.values)

    @property
    def fatal(self) -> bool:
        """It fails the run."""
        if self.goal.kind != "correctness" or self.passed:
            return False
        missed = [(p, v) for p, v in zip(self.goal.parts, self.values, strict=True) if v is None or not p.holds(v)]
        return any(v is None or not part.excused(v) for part, v in missed)

    @property
    def word(self) -> str:
        """pass, miss or not measured."""
        return ("pass" if self.passed else "miss") if self.measured else "not measured"


def judge(rows: Rows, goals: Sequence[Goal], planned: Callable[[Goal], bool] = lambda _goal: True) -> list[Verdict]:
    """Hold a run against each goal. `planned`: the run was to measure it."""
    verdicts = []
    for goal in goals:
        values = tuple(part.compute(rows) for part in goal.parts)
        told = goal.show(rows) if goal.show and None not in values else _told(goal, values)
        verdicts.append(Verdict(goal, values, told, planned(goal)))
    return verdicts


def _told(goal: Goal, values: Sequence[Value | None]) -> str:
    """As in `1.9/2.3 ms`; a ratio has no unit."""
    numbers = ["-" if v is None else f"{v.value:.{part.digits}f}" for part, v in zip(goal.parts, values, strict=True)]
    return f"{'/'.join(numbers)}{f' {goal.unit}' if goal.unit not in {'', 'x'} else ''}"
