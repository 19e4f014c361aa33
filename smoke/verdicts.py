"""What a round proves: pure functions over recorded facts. Assumptions first (`void`), then verdicts (`judge_round`).

A round whose assumptions do not hold is void: never a pass, never a failure. A request that failed is a failure and
never a reason to call a round too short.
"""

from collections import Counter
from collections.abc import Callable

from iop.domain.law import violations_of_status
from smoke import disrupted
from smoke.view import RoundView, Verdict, Void, final_load, maxima, provider_maxima

_ARRIVALS = ("granted", "queued")
_CHANGES = ("capacity", "provider", "node", "adopted")
#: rounds in which something is taken away on purpose
DISRUPTIONS = ("drained", "killed", "cut", "line_full")


def void(view: RoundView) -> Void | None:
    """Return why the round is void; None when it can be judged."""
    last = disrupted.idle if view.round.kind in DISRUPTIONS else _short
    return _gap(view) or _traffic(view) or _unready(view) or _changed(view) or last(view)


def judge_round(view: RoundView) -> list[Verdict]:
    """Judge a round that is not void, by its kind."""
    common = _DISRUPTED if view.round.kind in DISRUPTIONS else _COMMON
    return [verdict for part in (*common, *_BY_KIND[view.round.kind]) for verdict in part(view)]


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


def _unready(view: RoundView) -> Void | None:
    """Exactness is judged only when the round began with everything ready, as declared, and one Edge saw all of it."""
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
    return None


def _changed(view: RoundView) -> Void | None:
    """A change of the pool; of the node that is taken away on purpose, and of what it owns, it is none."""
    for event in view.events:
        if event["type"] in _CHANGES and (view.round.node is None or event["node_id"] != view.round.node):
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
_DISRUPTED: tuple[_Part, ...] = (_never_over, _final, _law, _anomalies, disrupted.engines_bore_it, disrupted.as_before)
_AWAY: tuple[_Part, ...] = (
    disrupted.answered,
    disrupted.none_lost,
    disrupted.full_without,
    disrupted.another_process,
)
_BY_KIND: dict[str, tuple[_Part, ...]] = {
    "capacity": (_in_order, _engines),
    "order": (_in_order,),
    "cli_beside": (_cli, _in_order),
    "left_queued": (_left,),
    "left_streaming": (_left, _in_order),
    "drained": (*_AWAY, disrupted.none_new),
    "killed": _AWAY,
    "cut": _AWAY,
    "line_full": (disrupted.bounded,),
}
