"""A round with everything recorded about it, and what can be read off it. Pure; judging is for others."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from smoke.history import Engine, Environment, Request, Round, Snapshot

VoidKind = Literal["gap", "traffic", "changed", "short"]
Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that was held against the facts."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Void:
    """Why a round proves nothing."""

    kind: VoidKind
    reason: str


@dataclass(frozen=True, slots=True)
class RoundView:
    """A round with everything recorded about it; events in the Edge's order, snapshots in time's."""

    env: Environment
    round: Round
    requests: tuple[Request, ...]
    snapshots: tuple[Snapshot, ...]
    events: tuple[Event, ...]
    engines: tuple[Engine, ...] = ()

    def of(self, *types: str) -> list[Event]:
        """This round's own pool events of these types, in order."""
        mine = set(self.round.request_ids)
        return [event for event in self.events if event["type"] in types and event["request_id"] in mine]

    @property
    def pool_requests(self) -> list[Request]:
        """The burst without the CLI call beside it."""
        return [request for request in self.requests if request.request_id in set(self.round.request_ids)]


def maxima(view: RoundView) -> tuple[int, int]:
    """Most requests in flight and most in line at one moment of the round, from the event log."""
    loads = [event["totals"] for event in view.events if event.get("totals")]
    return max((load["in_flight"] for load in loads), default=0), max((load["queued"] for load in loads), default=0)


def provider_maxima(view: RoundView) -> dict[str, int]:
    """Most requests in flight at one moment, per declared provider, from the event log."""
    peaks = dict.fromkeys(view.env.capacities, 0)
    for event in view.events:
        if event.get("provider") and event.get("provider_id"):
            name = event["provider_id"]
            peaks[name] = max(peaks.get(name, 0), event["provider"]["in_flight"])
    return peaks


def final_load(view: RoundView) -> tuple[int, int]:
    """In flight and queued in the round's last snapshot; (-1, -1) when there is none."""
    if not view.snapshots:
        return -1, -1
    totals = view.snapshots[-1].status["totals"]
    return totals["in_flight"], totals["queued"]


def story(view: RoundView) -> str:
    """What a round was, in a sentence: how many came, how many ran, who waited for how long, how it ended."""
    top, waiting = maxima(view)
    asked = len(view.round.request_ids)
    waits = [request.queue_ms / 1000 for request in view.pool_requests if request.queue_ms]
    longest = f" for {max(waits):.2g} s at the longest" if waits else ""
    waited = f"{waiting} waited{longest}" if waiting else "nobody waited"
    in_flight, queued = final_load(view)
    return (
        f"{asked} requests over {view.env.capacity} slots: {top} ran at once, {waited}, "
        f"and at the end {in_flight} were in flight and {queued} in line.{_absence(view)}"
    )


def seconds_of(event: Event) -> float:
    """When an event happened, in seconds since 1970."""
    return datetime.fromisoformat(event["at"]).timestamp()


def taken(view: RoundView) -> Event | None:
    """The event with which the node of a round that takes one away went: draining, stopping or offline."""
    return next((event for event in _of_the_node(view) if not _is_back(event)), None)


def returned(view: RoundView) -> Event | None:
    """The event with which it was last back."""
    return next((event for event in reversed(_of_the_node(view)) if _is_back(event)), None)


def _absence(view: RoundView) -> str:
    gone, back = taken(view), returned(view)
    if gone is None:
        return ""
    first = seconds_of(view.events[0])
    until = f"and was back at {seconds_of(back) - first:.1f} s" if back else "and did not come back"
    return f" {view.round.node} went at {seconds_of(gone) - first:.1f} s ({gone['reason']}) {until}."


def _of_the_node(view: RoundView) -> list[Event]:
    return [event for event in view.events if event["type"] == "node" and event["node_id"] == view.round.node]


def _is_back(event: Event) -> bool:
    return str(event["reason"]).startswith("connected")
