"""What a round proves: pure functions over recorded facts. Assumptions first (`void`), then verdicts (`judge_round`).

A round whose assumptions do not hold is void: never a pass, never a failure. A request that failed is a failure and
never a reason to call a round too short.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from iop.domain.law import violations_of_status
from smoke.history import Engine, Environment, Request, Round, Snapshot

VoidKind = Literal["gap", "traffic", "changed", "short"]
Event = Mapping[str, Any]
_ARRIVALS = ("granted", "queued")
_CHANGES = ("capacity", "provider", "node", "adopted")


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


def void(view: RoundView) -> Void | None:
    """Return why the round is void; None when it can be judged."""
    return _gap(view) or _traffic(view) or _changed(view) or _short(view)


def judge_round(view: RoundView) -> list[Verdict]:
    """Judge a round that is not void, by its kind."""
    return [verdict for part in (*_COMMON, *_BY_KIND[view.round.kind]) for verdict in part(view)]


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


# --- assumptions -----------------------------------------------------------------------------------------------------


def _gap(view: RoundView) -> Void | None:
    if any(event["type"] == "gap" for event in view.events):
        return Void("gap", "the event log has a gap: events of this round were overwritten")
    expected = list(range(view.round.seq_from + 1, view.round.seq_to + 1))
    found = [event["seq"] for event in view.events]
    if found != expected:
        missing = sorted(set(expected) - set(found))
        return Void("gap", f"the event log is not whole: events {missing[:5]} are missing or out of order")
    return None


def _traffic(view: RoundView) -> Void | None:
    ours = {*view.round.request_ids, view.round.cli_id}
    places = [place for place, event in enumerate(view.events) if event["request_id"] in ours]
    if not places:
        return None
    window = view.events[places[0] : places[-1] + 1]
    foreign = sorted({event["request_id"] for event in window if event["request_id"]} - ours)
    return Void("traffic", f"other traffic: {len(foreign)} foreign requests, e.g. {foreign[0]}") if foreign else None


def _changed(view: RoundView) -> Void | None:
    if not view.snapshots:
        return Void("changed", "no status was read")
    instances = {snapshot.status["edge"]["instance_id"] for snapshot in view.snapshots}
    if len(instances) > 1:
        return Void("changed", "the Edge was restarted meanwhile")
    first = view.snapshots[0].status["provider_snapshots"]
    for entry in first:
        declared = view.env.capacities.get(entry["provider_id"])
        if entry["state"] != "ready" or entry["capacity"] != declared:
            found = f"{entry['provider_id']} is {entry['state']} with capacity {entry['capacity']}"
            return Void("changed", f"{found}; declared is ready with {declared}")
    if {entry["provider_id"] for entry in first} != set(view.env.capacities):
        return Void("changed", f"the Edge has other providers: {sorted(entry['provider_id'] for entry in first)}")
    for event in view.events:
        if event["type"] in _CHANGES:
            what = event["provider_id"] or event["node_id"]
            return Void(
                "changed", f"the pool changed meanwhile: {event['type']} {what} {event['reason'] or ''}".strip()
            )
    return None


def _short(view: RoundView) -> Void | None:
    if any(request.outcome == "failed" for request in view.requests):
        return None  # a failure is judged, whatever it did to the overlap
    arrived: dict[str, int] = {}
    for event in view.of(*_ARRIVALS):
        arrived.setdefault(event["request_id"], event["seq"])
    ended = [event["seq"] for event in view.of("ended")]
    if arrived and ended and min(ended) < max(arrived.values()):
        return Void("short", "the first request ended before the last had arrived: they did not overlap")
    return _short_of_kind(view)


def _short_of_kind(view: RoundView) -> Void | None:
    leaver = view.round.leaver
    mine = [event for event in view.of("granted", "abandoned", "ended") if event["request_id"] == leaver]
    if view.round.kind == "left_queued" and [e["type"] for e in mine] == ["granted", "ended"]:
        return Void("short", "a slot came free before the waiting client had left")
    if view.round.kind == "left_streaming" and any(e["outcome"] == "completed" for e in mine):
        return Void("short", "the stream had ended before its client left")
    if view.round.kind == "cli_beside":
        started = [event for event in view.events if event["request_id"] == view.round.cli_id]
        full = view.env.capacity
        if not started or started[0]["totals"]["in_flight"] < full:
            return Void("short", "the CLI call did not start while the pool was full")
    return None


# --- verdicts --------------------------------------------------------------------------------------------------------


def _law(view: RoundView) -> list[Verdict]:
    broken = [text for snapshot in view.snapshots for text in violations_of_status(snapshot.status)]
    detail = broken[0] if broken else f"{len(view.snapshots)} snapshots"
    return [Verdict("conservation law at every snapshot", not broken and bool(view.snapshots), detail)]


def _anomalies(view: RoundView) -> list[Verdict]:
    before, after = (view.snapshots[place].status["anomalies"] for place in (0, -1))
    new = {name: after[name] - before[name] for name in after if after[name] != before.get(name)}
    return [Verdict("no anomalies", not new, str(new or "none"))]


def _never_over(view: RoundView) -> list[Verdict]:
    peaks = provider_maxima(view)
    over = {name: peak for name, peak in peaks.items() if peak > view.env.capacities.get(name, 0)}
    shown = ", ".join(f"{name} {peak}/{view.env.capacities.get(name, 0)}" for name, peak in peaks.items())
    return [Verdict("no provider over its capacity", not over, shown)]


def _full(view: RoundView) -> list[Verdict]:
    top, waiting = maxima(view)
    capacity, more = view.env.capacity, max(0, len(view.round.request_ids) - view.env.capacity)
    return [
        Verdict("total in flight reaches capacity", top == capacity, f"{top}/{capacity}"),
        Verdict(f"exactly {more} queued", waiting == more, f"max {waiting}"),
    ]


def _final(view: RoundView) -> list[Verdict]:
    last = view.events[-1]["totals"] if view.events else None
    logged = (last["in_flight"], last["queued"]) if last else (-1, -1)
    status = final_load(view)
    shown = f"log {logged[0]}/{logged[1]}, status {status[0]}/{status[1]}"
    return [Verdict("final 0/0", logged == status == (0, 0), shown)]


def _all_succeed(view: RoundView) -> list[Verdict]:
    staying = [request for request in view.pool_requests if request.request_id != view.round.leaver]
    expected = set(view.round.request_ids) - {view.round.leaver}
    bad = [request for request in staying if request.outcome != "ok"]
    complete = {request.request_id for request in staying} == expected
    detail = f"{len(staying) - len(bad)} of {len(expected)}"
    if bad:
        detail += f"; {bad[0].request_id}: {bad[0].error or bad[0].outcome}"
    return [Verdict("all succeed", not bad and complete, detail)]


def _once(view: RoundView) -> list[Verdict]:
    """Each request that stayed was granted once and ended once, completed; none was handed back."""
    staying = set(view.round.request_ids) - {view.round.leaver}
    counts = Counter(
        (event["request_id"], event["type"], event["outcome"]) for event in view.of("granted", "ended", "returned")
    )
    wanted = {(one, kind, out): 1 for one in staying for kind, out in (("granted", None), ("ended", "completed"))}
    found = {key: count for key, count in counts.items() if key[0] in staying}
    odd = sorted(str(key) for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key))
    return [Verdict("granted once, ended once", not odd, odd[0] if odd else f"{len(staying)} requests")]


def _in_order(view: RoundView) -> list[Verdict]:
    gone = {event["request_id"] for event in view.of("abandoned")}
    queued = [event["request_id"] for event in view.of("queued") if event["request_id"] not in gone]
    granted = [event["request_id"] for event in view.of("granted") if event["request_id"] in set(queued)]
    detail = f"{len(queued)} waited" if granted == queued else f"joined {queued}, served {granted}"
    return [Verdict("first in, first out", granted == queued and bool(queued), detail)]


def _engines(view: RoundView) -> list[Verdict]:
    """The simulators' own counters, where there are simulators: the proof that does not trust the Edge."""
    granted = Counter(event["provider_id"] for event in view.of("granted"))
    verdicts = []
    for engine in view.engines:
        slots = view.env.capacities.get(engine.provider_id, 0)
        peak = engine.after["peak_offered"]
        seen = engine.after["started"] - engine.before["started"]
        fits = peak <= slots and seen == granted[engine.provider_id] and engine.after["waiting"] == 0
        detail = f"peak offered {peak} of {slots}, {seen} runs for {granted[engine.provider_id]} grants"
        verdicts.append(Verdict(f"engine counters of {engine.provider_id}", fits, detail))
    return verdicts


def _cli(view: RoundView) -> list[Verdict]:
    cli_id = view.round.cli_id
    answer = next((request for request in view.requests if request.request_id == cli_id), None)
    types = [event["type"] for event in view.events if event["request_id"] == cli_id]
    fine = answer is not None and answer.outcome == "ok" and bool(answer.text)
    place = answer is not None and answer.node in view.env.cli_nodes and answer.provider is None
    shown = f"node {answer.node}, provider {answer.provider}" if answer else "no answer"
    return [
        Verdict("CLI call answered", fine, (answer.error or "ok") if answer else "no answer"),
        Verdict("CLI call takes no slot and no place", types == ["direct_started", "direct_ended"], " ".join(types)),
        Verdict("CLI call ran on its node", place, shown),
    ]


def _left(view: RoundView) -> list[Verdict]:
    """The leaver's story in the log: from the line without a grant, or out of a slot as cancelled."""
    leaver = view.round.leaver
    story = [
        event["outcome"] or event["type"]
        for event in view.of("queued", "granted", "abandoned", "ended", "returned")
        if event["request_id"] == leaver
    ]
    wanted = ["queued", "abandoned"] if view.round.kind == "left_queued" else ["granted", "cancelled"]
    return [Verdict("the client that left freed its place", story == wanted, " → ".join(story) or "no event")]


_Part = Callable[[RoundView], list[Verdict]]
_COMMON: tuple[_Part, ...] = (_all_succeed, _full, _never_over, _once, _final, _law, _anomalies)
_BY_KIND: dict[str, tuple[_Part, ...]] = {
    "capacity": (_in_order, _engines),
    "order": (_in_order,),
    "cli_beside": (_cli, _in_order),
    "left_queued": (_left,),
    "left_streaming": (_left, _in_order),
}
