"""The line: requests in order of arrival, kept in one heap per group of those that can use the same providers.

A group is all waiters of one model with one set of excluded providers, or with one that alone will do. So the next
waiter for a provider is the earliest head among its groups, whatever the length of the line. Who leaves from the
middle is only marked; marks are swept when they outnumber the living, so that each change costs the same in the long
run.
"""

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from iop.domain.fleet import Provider
from iop.domain.states import State, advance

NOBODY: frozenset[str] = frozenset()

_SWEEP_FROM = 64


class GroupKey(NamedTuple):
    """What the waiters of a group have in common. `only`: the one provider that will do, if one was named."""

    model: str
    only: str | None
    is_check: bool
    excluded: frozenset[str]


@dataclass(slots=True, eq=False)
class Request:
    """A request from its asking to its end; `number` is its arrival number, times are in seconds.

    `failures` maps each provider that failed it to the kind of failure; these are excluded. `streams`: its answer
    comes as it is made. `only`: the one provider that will do; `is_check`: that one's drain is ignored.
    """

    id: str
    model: str
    number: int
    arrived: float
    deadline: float
    only: str | None = None
    is_check: bool = False
    key: str | None = None
    streams: bool = False
    failures: dict[str, str] = field(default_factory=dict)
    state: State = State.RUN_ROUTED
    place: "Place | None" = None

    @property
    def group_key(self) -> GroupKey:
        """Name the group it waits in."""
        excluded = frozenset(self.failures) if self.failures else NOBODY
        return GroupKey(self.model, self.only, self.is_check, excluded)

    def move(self, *following: State) -> None:
        """Go through these states. Raises IllegalTransition for an arrow that is not in the table."""
        for state in following:
            self.state = advance(self.state, state)


@dataclass(slots=True, eq=False)
class Place:
    """One stay in line. `since` is its beginning: the arrival, or the loss of the provider that made it come back, so
    that the grace of a returned request does not count the time it ran. `group` is None once it has left.
    """

    request: Request
    since: float
    serial: int
    group: "Group | None"


class Group:
    """Waiters that can use the same providers, earliest arrival first. `lost` holds the groups whose grace runs."""

    def __init__(self, key: GroupKey, candidates: tuple[Provider, ...], lost: dict["Group", None]) -> None:
        self.key = key
        self.candidates = candidates
        self.live = 0
        self.lost_at: float | None = None
        self._lost = lost
        self._by_arrival: list[tuple[int, Place]] = []
        self._by_joining: deque[Place] = deque()

    @property
    def is_check(self) -> bool:
        """Tell whether these ask for one named provider, drained or not."""
        return self.key.is_check

    def add(self, place: Place) -> None:
        """Give a waiter its place by arrival number."""
        heapq.heappush(self._by_arrival, (place.request.number, place))
        self._by_joining.append(place)
        self.live += 1

    def drop(self, place: Place) -> None:
        """Take a waiter out, wherever it stands."""
        place.group = None
        self.live -= 1
        while self._by_arrival and self._by_arrival[0][1].group is None:
            heapq.heappop(self._by_arrival)
        while self._by_joining and self._by_joining[0].group is None:
            self._by_joining.popleft()
        if len(self._by_arrival) > max(_SWEEP_FROM, 2 * self.live):
            self._by_arrival = [entry for entry in self._by_arrival if entry[1].group is not None]
            heapq.heapify(self._by_arrival)
        if len(self._by_joining) > max(_SWEEP_FROM, 2 * self.live):
            self._by_joining = deque(place for place in self._by_joining if place.group is not None)

    def head(self) -> Place:
        """Return the earliest arrival; a group in the line is never empty."""
        return self._by_arrival[0][1]

    def places(self) -> list[Place]:
        """Return all waiters in order of arrival."""
        return [place for _, place in sorted(self._by_arrival, key=lambda entry: entry[0]) if place.group is not None]

    def usable(self) -> list[Provider]:
        """Return the candidates that take work now."""
        return [provider for provider in self.candidates if provider.takes_work(drain_ignored=self.is_check)]

    def note_candidates(self, now: float) -> None:
        """Start or stop the clock of the grace: it runs while every candidate is offline or down."""
        if not all(provider.is_gone(drain_ignored=self.is_check) for provider in self.candidates):
            self.lost_at = None
            self._lost.pop(self, None)
        elif self.lost_at is None:
            self.lost_at = now
            self._lost[self] = None

    def next_grace_end(self, grace: float) -> tuple[float, Place] | None:
        """Tell when the next waiter's grace is over (seconds), and whose it is."""
        if self.lost_at is None:
            return None
        place = self._by_joining[0]
        return max(self.lost_at, place.since) + grace, place


class Line:
    """All waiters."""

    def __init__(self) -> None:
        self.waiting: dict[str, Place] = {}
        self.groups: dict[GroupKey, Group] = {}
        self._lost: dict[Group, None] = {}
        self._by_provider: dict[str, dict[GroupKey, Group]] = {}
        self._deadlines: list[tuple[float, int, Place]] = []
        self._by_key: Counter[str] = Counter()
        self._serial = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def join(self, request: Request, candidates: tuple[Provider, ...], now: float) -> bool:
        """Put a request in line at its arrival number. True when it is the first of its group."""
        key = request.group_key
        group = self.groups.get(key)
        is_first = group is None
        if group is None:
            group = self.groups[key] = Group(key, candidates, self._lost)
            self._index(group)
            group.note_candidates(now)
        self._serial += 1
        place = Place(request, now, self._serial, group)
        group.add(place)
        request.place = place
        self.waiting[request.id] = place
        heapq.heappush(self._deadlines, (request.deadline, place.serial, place))
        if request.key is not None:
            self._by_key[request.key] += 1
        return is_first

    def leave(self, place: Place) -> None:
        """Take a waiter out of the line, whatever the reason."""
        group, request = place.group, place.request
        if group is None:
            return
        group.drop(place)
        if group.live == 0:
            del self.groups[group.key]
            self._lost.pop(group, None)
            self._unindex(group)
        request.place = None
        del self.waiting[request.id]
        if request.key is not None:
            self._by_key[request.key] -= 1
            if self._by_key[request.key] == 0:
                del self._by_key[request.key]
        self._sweep_deadlines()

    def reroute(self, group: Group, candidates: tuple[Provider, ...]) -> None:
        """Give a group other candidates, after a change of the config."""
        self._unindex(group)
        group.candidates = candidates
        self._index(group)

    def of_provider(self, provider_id: str) -> Iterable[Group]:
        """Return the groups that provider is a candidate of."""
        return self._by_provider.get(provider_id, {}).values()

    def queued_for(self, provider_id: str) -> int:
        """Count the waiters that provider could serve."""
        groups = self._by_provider.get(provider_id)
        return sum([group.live for group in groups.values()]) if groups else 0

    def has_waiters(self, provider_id: str) -> bool:
        """Tell whether anybody waits whom that provider could serve."""
        return provider_id in self._by_provider

    def has_group(self, request: Request) -> bool:
        """Tell whether anybody waits who can use the same providers as this request."""
        return bool(self.groups) and request.group_key in self.groups

    def waiting_of_key(self, key: str) -> int:
        """Count the waiters of one API key."""
        return self._by_key[key]

    def earliest(self, providers: Iterable[Provider]) -> Place | None:
        """Return the earliest waiter that one of these providers can take now."""
        best: Place | None = None
        for provider in providers:
            for group in self.of_provider(provider.id):
                head = group.head()
                if best is not None and head.request.number >= best.request.number:
                    continue
                if provider.takes_work(drain_ignored=group.is_check):
                    best = head
        return best

    def overdue(self, now: float) -> Iterator[Place]:
        """Yield waiters whose deadline has passed; the caller takes each out before it asks for the next."""
        while self._deadlines and self._deadlines[0][0] <= now:
            yield self._deadlines[0][2]

    def out_of_grace(self, now: float, grace: float) -> Iterator[Place]:
        """Yield waiters whose grace (seconds) is over; the caller takes each out before it asks for the next."""
        for group in list(self._lost):
            while group.live and (end := group.next_grace_end(grace)) is not None and end[0] <= now:
                yield end[1]

    def next_end(self, grace: float) -> float | None:
        """Tell the time (seconds) at which the next waiter runs out of time or of grace."""
        deadline = self._deadlines[0][0] if self._deadlines else None
        if not self._lost:
            return deadline
        ends = [end[0] for group in self._lost if (end := group.next_grace_end(grace)) is not None]
        return min(ends) if deadline is None else min(deadline, *ends)

    def _sweep_deadlines(self) -> None:
        while self._deadlines and self._deadlines[0][2].group is None:
            heapq.heappop(self._deadlines)
        if len(self._deadlines) > max(_SWEEP_FROM, 2 * len(self.waiting)):
            self._deadlines = [entry for entry in self._deadlines if entry[2].group is not None]
            heapq.heapify(self._deadlines)

    def _index(self, group: Group) -> None:
        for provider in group.candidates:
            self._by_provider.setdefault(provider.id, {})[group.key] = group

    def _unindex(self, group: Group) -> None:
        for provider in group.candidates:
            groups = self._by_provider[provider.id]
            del groups[group.key]
            if not groups:
                del self._by_provider[provider.id]
