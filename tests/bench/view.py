"""A recorded chaos run, sorted for the judge."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.bench.record import (
    Answer,
    Begun,
    Done,
    Ended,
    Engine,
    Event,
    Life,
    Offered,
    Record,
    Status,
    Trouble,
)

#: faults after which the newest events of an Edge may be unknown, and each connection to it broken
EDGE_GONE = ("kill edge",)
#: faults after which an engine may be offered more than it has slots: it does not notice who leaves
ENGINE_STILL = ("freeze engine", "freeze host", "cut host", "lose packets of host")


@dataclass
class EdgeLife:
    """One Edge process: its events in order, when it was first and last heard of, and whether it died at once."""

    instance: str
    began: float
    events: list[Event] = field(default_factory=list)
    killed_at: float | None = None


@dataclass
class View:
    """All records of a run by kind."""

    begun: Begun
    faults: list[Done] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    lives: list[EdgeLife] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    offered: list[Offered] = field(default_factory=list)
    engines: list[Engine] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    ended: float | None = None

    def grants(self, request_id: str) -> set[str]:
        """Providers that gave a slot to the request."""
        return self._granted.get(request_id, set())

    def __post_init__(self) -> None:
        self._granted: dict[str, set[str]] = defaultdict(set)

    def note_grant(self, event: dict[str, Any]) -> None:
        """Remember who was granted where."""
        if event["type"] == "granted":
            self._granted[event["request_id"]].add(event["provider_id"])

    def touching(self, providers: Iterable[str]) -> list[Done]:
        """Faults that may hit work of these providers: their own, those of their nodes, and those of the Edge."""
        wanted = set(providers)
        return [one for one in self.faults if one.target == "edge" or self.provider_of(one) in wanted]

    def provider_of(self, fault: Done) -> str | None:
        """The provider that a fault is about, directly or by its node."""
        return fault.provider or self.begun.nodes.get(fault.node or "")

    def edge_deaths(self) -> list[Done]:
        """Faults that took the Edge away."""
        return [one for one in self.faults if one.kind in EDGE_GONE]

    def tail_is_lost(self, answer: Answer) -> bool:
        """True when the Edge died while, or a moment after, the request was answered: its log may not tell the end."""
        return any(answer.began <= one.ended and one.began <= answer.ended + 1.0 for one in self.edge_deaths())


class NoRun(Exception):
    """The history does not begin as one of a run."""


def view(records: Sequence[Record]) -> View:
    """Sort the records. Raises NoRun."""
    begun = next((one for one in records if isinstance(one, Begun)), None)
    if begun is None:
        raise NoRun("the history has no Begun record")
    found = View(begun)
    lives: dict[str, EdgeLife] = {}
    lists: dict[type, list[Any]] = {
        Done: found.faults, Answer: found.answers, Status: found.statuses, Offered: found.offered,
        Engine: found.engines, Trouble: found.troubles,
    }  # fmt: skip
    for one in records:
        if isinstance(one, Life | Event):
            life = lives.setdefault(one.instance, EdgeLife(one.instance, one.t))
            if isinstance(one, Event):
                life.events.append(one)
                found.note_grant(one.event)
        elif isinstance(one, Ended):
            found.ended = one.t
        elif not isinstance(one, Begun):
            lists[type(one)].append(one)
    found.lives = list(lives.values())
    _note_deaths(found)
    return found


def _note_deaths(found: View) -> None:
    """Which Edge each killing fault ended: the one that was there before, and not after."""
    for life, following in zip(found.lives, found.lives[1:], strict=False):
        last = life.events[-1].t if life.events else life.began
        for one in found.edge_deaths():
            if life.began <= one.began <= following.began and one.ended >= last - 1.0:
                life.killed_at = one.began
