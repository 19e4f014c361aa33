"""What the rows of a run say about a measure: a median over the quiet rounds, with the least and the most of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from tests.bench.speed.peers import PEERS
from tests.bench.speed.processes import QUIET

Row = dict[str, Any]
#: how a number is found: of a row, or of a chain of keys "load.lat_ms.p50"
Pick = str | Callable[[Row], float | None]


@dataclass(frozen=True, slots=True)
class Value:
    """`value` is the median of `rounds` rounds, `low` and `high` their ends. `quiet`: others left the machine alone.

    `calm`, where it is the worst of several and was not measured in quiet: the worst of those that were.
    """

    value: float
    low: float
    high: float
    rounds: int
    quiet: bool = True
    calm: float | None = None


@dataclass(frozen=True)
class Rows:
    """The rows of one run."""

    rows: Sequence[Row]

    def of(self, test: str, peer: str, **keys: object) -> list[Row]:
        """The rows of a measure of a peer that did not fail, in order of rounds."""
        return [
            row
            for row in self.rows
            if row.get("test") == test
            and row.get("peer") == peer
            and "error" not in row
            and all(row.get(key) == wanted for key, wanted in keys.items())
        ]

    def peers(self) -> list[str]:
        """Those that were measured, in the order of a round."""
        measured = {row["peer"] for row in self.rows if row["test"] != "left out"}
        return [peer for peer in PEERS if peer in measured]

    def value(self, pick: Pick, test: str, peer: str, **keys: object) -> Value | None:
        """A number of one peer; None when nothing was measured."""
        return summary((_picked(row, pick), _quiet(row)) for row in self.of(test, peer, **keys))

    def compared(
        self,
        combine: Callable[[float, float], float | None],
        pick: Pick,
        test: str,
        peers: tuple[str, str],
        **keys: object,
    ) -> Value | None:
        """Two peers, round by round, so that what changes between rounds changes both; None where one is missing."""
        pairs = []
        other = {row["round"]: row for row in self.of(test, peers[1], **keys)}
        for row in self.of(test, peers[0], **keys):
            if (beside := other.get(row["round"])) is None:
                continue
            one, two = _picked(row, pick), _picked(beside, pick)
            pairs.append((None if one is None or two is None else combine(one, two), _quiet(row) and _quiet(beside)))
        return summary(pairs)

    def ratio(self, pick: Pick, test: str, peers: tuple[str, str], **keys: object) -> Value | None:
        """The first peer's number over the second's."""
        return self.compared(lambda one, two: one / two if two else None, pick, test, peers, **keys)

    def added(self, pick: Pick, test: str, peers: tuple[str, str], **keys: object) -> Value | None:
        """The first peer's number less the second's."""
        return self.compared(lambda one, two: one - two, pick, test, peers, **keys)


@dataclass(frozen=True)
class Asked(Rows):
    """No rows; it remembers of which measures and peers they were wanted."""

    rows: Sequence[Row] = ()
    wanted: set[tuple[str, str]] = field(default_factory=set)

    def of(self, test: str, peer: str, **keys: object) -> list[Row]:
        """None; (test, peer) is wanted."""
        self.wanted.add((test, peer))
        return super().of(test, peer, **keys)


def summary(rounds: Iterable[tuple[float | None, bool]]) -> Value | None:
    """Of (number, whether it was quiet) per round: the quiet ones, or all where none was."""
    known = [(number, quiet) for number, quiet in rounds if number is not None]
    chosen = [number for number, quiet in known if quiet] or [number for number, _ in known]
    if not chosen:
        return None
    return Value(median(chosen), min(chosen), max(chosen), len(chosen), any(quiet for _, quiet in known))


def worst(values: Iterable[Value | None]) -> Value | None:
    """The greatest of several; None when one of them is missing.

    A noisy one is told when it is the greatest, but it hides no quiet one: the greatest of those goes along as `calm`,
    and is held to the mark by itself.
    """
    asked = list(values)
    known = [one for one in asked if one is not None]
    if not known or len(known) < len(asked):
        return None
    greatest = max(known, key=lambda one: one.value)
    calm = max((one.value for one in known if one.quiet), default=None)
    return greatest if greatest.quiet else replace(greatest, calm=calm)


def _quiet(row: Row) -> bool:
    return float(row.get("others_cores", 0.0)) < QUIET


def _picked(row: Row, pick: Pick) -> float | None:
    if callable(pick):
        return pick(row)
    found: Any = row
    for key in pick.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return None if found is None else float(found)
