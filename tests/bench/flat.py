"""Whether a series of numbers stays flat: the medians of its windows, after the warm-up. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

#: the share of the series at its beginning that is not judged: caches, rings and pools fill
WARM_UP = 0.25
WINDOWS = 5
FEWEST = 10  # samples that must be left to judge


@dataclass(frozen=True, slots=True)
class Limit:
    """How much the last window may lie above the first: the larger of a share of it and an absolute number."""

    share: float
    absolute: float

    def allows(self, first: float, last: float) -> bool:
        """True when growth from `first` to `last` is no growth."""
        return last - first <= max(self.share * first, self.absolute)


@dataclass(frozen=True, slots=True)
class Flatness:
    """Medians of the windows, and whether they stay within the limit."""

    medians: tuple[float, ...]
    ok: bool

    @property
    def first(self) -> float:
        """Median of the first window after the warm-up."""
        return self.medians[0]

    @property
    def last(self) -> float:
        """Median of the last window."""
        return self.medians[-1]

    @property
    def growth(self) -> float:
        """Share by which the last lies above the first."""
        return (self.last - self.first) / self.first if self.first else 0.0


def flatness(series: Sequence[float], limit: Limit) -> Flatness:
    """Judge a series in order of time. Raises ValueError when too little of it is left after the warm-up."""
    judged = series[int(len(series) * WARM_UP) :]
    if len(judged) < FEWEST:
        raise ValueError(f"{len(series)} samples are too few to judge: {FEWEST} are wanted after the warm-up")
    edges = [round(number * len(judged) / WINDOWS) for number in range(WINDOWS + 1)]
    medians = tuple(median(judged[a:b]) for a, b in pairwise(edges))
    return Flatness(medians, limit.allows(medians[0], medians[-1]))
