"""What the picture of a round is drawn from: in flight per provider and queued, at each event of the Edge's log. Pure.

The shape is that of `iopDrawing.timeline` (`drawing.js` of the Control Plane). Times are in seconds; the round's first
event is at 0.
"""

from typing import Any, TypedDict

from smoke.view import Event, RoundView, seconds_of

#: of the round's length: the quiet that is shown before the first event and after the last one
MARGIN = 0.04
#: seconds; the margin of a round that was over in no time
LEAST_MARGIN_S = 0.05


class Slots(TypedDict):
    """A provider and its declared slots."""

    id: str
    capacity: int


class Point(TypedDict):
    """The load from this moment on."""

    at: float
    inFlight: dict[str, int]
    queued: int


# the functional form, since `from` is a word of Python
Timeline = TypedDict(
    "Timeline",
    {"from": float, "to": float, "capacity": int, "providers": list[Slots], "points": list[Point]},
)


def timeline(view: RoundView) -> Timeline | None:
    """The load over the round; None for a round without events, of which there is nothing to draw."""
    events = [event for event in view.events if event.get("totals") and event["at"]]
    if not events:
        return None
    points = _points(view, events)
    length = points[-1]["at"]
    margin = max(length * MARGIN, LEAST_MARGIN_S)
    before: Point = {"at": _rounded(-margin), "inFlight": _at_first(view), "queued": _queued_at_first(view)}
    after: Point = {**points[-1], "at": _rounded(length + margin)}
    return {
        "from": before["at"],
        "to": after["at"],
        "capacity": view.env.capacity,
        "providers": [{"id": name, "capacity": view.env.capacities[name]} for name in _in_order(view)],
        "points": [before, *points, after],
    }


def _points(view: RoundView, events: list[Event]) -> list[Point]:
    """One point per moment; of events at the same moment the last one counts."""
    zero, latest = seconds_of(events[0]), 0.0
    held = _at_first(view)
    points: list[Point] = []
    for event in events:
        name = event["provider_id"]
        if name in held and event.get("provider"):
            held = {**held, name: event["provider"]["in_flight"]}
        latest = max(latest, seconds_of(event) - zero)  # the Edge's clock may be set back; its order of events stays
        point: Point = {"at": _rounded(latest), "inFlight": held, "queued": event["totals"]["queued"]}
        if points and points[-1]["at"] == point["at"]:
            points[-1] = point
        else:
            points.append(point)
    return points


def _in_order(view: RoundView) -> list[str]:
    """The declared providers as the Edge lists them, so that each has the colour here that it has on the live page."""
    shown = [entry["provider_id"] for entry in _first(view).get("provider_snapshots", ())]
    declared = view.env.capacities
    return list(dict.fromkeys([*(name for name in shown if name in declared), *declared]))


def _at_first(view: RoundView) -> dict[str, int]:
    """Per declared provider, what the first status of the round showed."""
    shown = _first(view).get("provider_snapshots", ())
    known = {entry["provider_id"]: entry["in_flight"] for entry in shown}
    return {name: known.get(name, 0) for name in view.env.capacities}


def _queued_at_first(view: RoundView) -> int:
    queued: int = _first(view).get("totals", {}).get("queued", 0)
    return queued


def _first(view: RoundView) -> dict[str, Any]:
    return view.snapshots[0].status if view.snapshots else {}


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
