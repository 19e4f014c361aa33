"""What a round proves in which something was taken away: pure functions over recorded facts, as in verdicts.py."""

from collections import Counter

from smoke.facts import missing
from smoke.view import RoundView, Verdict, Void, returned, taken

_ENDS = ("ended", "refused", "expired", "abandoned")
#: the status that an error of the line has, and its code
_REFUSED = (429, "queue_full")


def idle(view: RoundView) -> Void | None:
    """Void when the node had no work, or nobody waited, at the moment at which it was taken away: nothing was tried."""
    if view.round.kind == "line_full":
        return _emptied(view)
    gone = taken(view)
    if gone is None:
        return Void("short", f"{view.round.node} was never taken away under load")
    held = Counter(event["provider_id"] for event in view.of("granted") if event["seq"] < gone["seq"])
    held -= Counter(e["provider_id"] for e in view.of("ended", "returned") if e["seq"] < gone["seq"])
    mine = view.env.nodes.get(str(view.round.node), ())
    if not any(held[name] for name in mine) or not gone["totals"]["queued"]:
        return Void("short", f"{view.round.node} had no work, or nobody waited, when it was taken away")
    return None


def answered(view: RoundView) -> list[Verdict]:
    """Each request ends with a whole answer, or with an error that says which one it is; none just breaks off."""
    asked = set(view.round.request_ids)
    good = {one.request_id for one in view.pool_requests if one.outcome == "ok"}
    told = {one.request_id: one.code for one in view.pool_requests if one.outcome == "failed" and one.code}
    unclear = [one for one in view.pool_requests if one.request_id not in good and one.request_id not in told]
    silent = asked - {one.request_id for one in view.pool_requests}
    codes = ", ".join(f"{number} {code}" for code, number in Counter(told.values()).items())
    detail = f"{len(good)} of {len(asked)} answered" + (f"; told: {codes}" if codes else "")
    if unclear:
        detail += f"; {unclear[0].request_id}: {unclear[0].error or unclear[0].outcome}"
    return [Verdict("each request has an answer or a clear error", not unclear and not silent, detail)]


def none_lost(view: RoundView) -> list[Verdict]:
    """By the log, each request ended once, ran once at a time, and ended as its client saw it."""
    ends = Counter(event["request_id"] for event in view.of(*_ENDS))
    runs = Counter(event["request_id"] for event in view.of("granted"))
    runs.subtract(event["request_id"] for event in view.of("returned"))
    whole = {event["request_id"] for event in view.of("ended") if event["outcome"] == "completed"}
    seen = {one.request_id for one in view.pool_requests if one.outcome == "ok"}
    lost = [one for one in view.round.request_ids if ends[one] != 1]
    twice = [one for one in view.round.request_ids if runs[one] > 1 or (one in whole and runs[one] != 1)]
    back = len(view.of("returned"))
    return [
        Verdict(
            "nothing is lost", not lost, f"{len(ends)} ended once" if not lost else f"{lost[0]}: {ends[lost[0]]} ends"
        ),
        Verdict(
            "nothing runs twice", not twice, twice[0] if twice else f"{back} went back to the line before they began"
        ),
        Verdict("clients saw what the log says", seen == whole, str(sorted(seen ^ whole)[:3] or "the same")),
    ]


def full_without(view: RoundView) -> list[Verdict]:
    """The other slots stayed taken while the node was away, and all slots were taken again afterwards."""
    gone, back = taken(view), returned(view)
    if gone is None or back is None:
        return [Verdict("the node came back", ok=False, detail=f"{view.round.node} did not connect again")]
    mine = view.env.nodes.get(str(view.round.node), ())
    others = view.env.capacity - sum(view.env.capacities[name] for name in mine)
    least, held = _least_elsewhere(view, gone["seq"], back["seq"])
    after = [event for event in view.of("granted") if event["seq"] > back["seq"]]
    top = max((event["totals"]["in_flight"] for event in after), default=0)
    again = sum(event["provider_id"] in mine for event in after)
    return [
        Verdict(
            "the others went on",
            held > 0 or least >= others,  # of a short absence, long answers fill all of it
            f"{held} grants elsewhere meanwhile, {least} of {others} slots at least",
        ),
        Verdict("the node takes work again", again > 0, f"{again} grants after its return"),
        Verdict("all slots are taken again", top == view.env.capacity, f"{top}/{view.env.capacity}"),
    ]


def none_new(view: RoundView) -> list[Verdict]:
    """From the drain to its end, the node got nothing, and what ran there ran to its end."""
    gone, back = taken(view), returned(view)
    last = back["seq"] if back else view.round.seq_to
    new = [
        event["request_id"]
        for event in view.of("granted")
        if gone is not None and gone["seq"] < event["seq"] < last and event["node_id"] == view.round.node
    ]
    failed = [one for one in view.pool_requests if one.outcome != "ok"]
    detail = f"{failed[0].request_id}: {failed[0].error}" if failed else f"{len(view.pool_requests)} of them"
    return [
        Verdict("a drained node gets nothing new", not new, new[0] if new else "none"),
        Verdict("no request notices a drain", not failed, detail),
    ]


def as_before(view: RoundView) -> list[Verdict]:
    """At the end the environment is as it was: all ready, the same config, nobody drained."""
    first, last = view.snapshots[0].status, view.snapshots[-1].status
    wrong = missing(view.env, last)
    wrong += [f"{node['id']} is drained" for node in last["nodes"] if node.get("drain")]
    if first["config"]["sha256"] != last["config"]["sha256"]:
        wrong.append("the config is another one")
    return [Verdict("the environment is as it was", not wrong, "; ".join(wrong) or "all ready, as declared")]


def another_process(view: RoundView) -> list[Verdict]:
    """The node that was killed is another process now; the one that was held still, or drained, is the same."""
    first, last = (_instance(view, place) for place in (0, -1))
    changed = view.round.kind == "killed"
    name = "its service manager has started it again" if changed else "it is still the same process"
    return [Verdict(name, (first != last) == changed and last is not None, f"{first} → {last}")]


def engines_bore_it(view: RoundView) -> list[Verdict]:
    """The simulators' own counters, where there are simulators: never offered more than their slots."""
    return [
        Verdict(
            f"engine of {one.provider_id} was never offered more than its slots",
            one.after["peak_offered"] <= view.env.capacities.get(one.provider_id, 0),
            f"{one.after['peak_offered']} of {view.env.capacities.get(one.provider_id, 0)}",
        )
        for one in view.engines
    ]


def bounded(view: RoundView) -> list[Verdict]:
    """The line took as many as its limit says; who came then was refused in words, and whoever waited never ran."""
    refusals = view.of("refused")
    most = max((event["totals"]["queued"] for event in view.of("queued")), default=0)
    early = [event for event in refusals if event["totals"]["queued"] != most]
    refused = {event["request_id"] for event in refusals}
    told = [one for one in view.pool_requests if one.request_id in refused]
    clear = [
        one
        for one in told
        if (one.status, one.code) == _REFUSED and _names(one.error, most) and _whole(one.retry_after)
    ]
    detail = told[0].error or "" if told else "nobody was refused"
    gone = {event["request_id"] for event in view.of("abandoned")}
    granted = {event["request_id"] for event in view.of("granted")}
    ran = sorted(gone & granted)
    staying = [one for one in view.pool_requests if one.request_id not in refused and one.outcome != "left"]
    bad = [f"{one.request_id}: {one.error}" for one in staying if one.outcome != "ok"]
    return [
        Verdict(
            "the line has a limit and keeps it", bool(refusals) and not early, f"{most} waited, {len(refusals)} refused"
        ),
        Verdict("who is refused is told why and when to come again", bool(told) and clear == told, detail),
        Verdict("who left the line never ran", bool(gone) and not ran, ran[0] if ran else f"{len(gone)} left"),
        Verdict(
            "who had a slot and stayed was served", bool(staying) and not bad, bad[0] if bad else f"{len(staying)}"
        ),
    ]


def _emptied(view: RoundView) -> Void | None:
    """A slot that came free while the line was filled: who was refused may then have been refused wrongly or not."""
    refusals, ends = view.of("refused"), view.of("ended")
    if refusals and ends and ends[0]["seq"] < refusals[0]["seq"]:
        return Void("short", "a slot came free before the line was full")
    return None


def _least_elsewhere(view: RoundView, first: int, last: int) -> tuple[int, int]:
    """The fewest slots taken at one moment while the node was away, and the grants of that time."""
    between = [event for event in view.events if first < event["seq"] < last and event.get("totals")]
    grants = [event for event in view.of("granted") if first < event["seq"] < last]
    return min((event["totals"]["in_flight"] for event in between), default=0), len(grants)


def _instance(view: RoundView, place: int) -> str | None:
    nodes = view.snapshots[place].status["nodes"]
    return next((node.get("instance_id") for node in nodes if node["id"] == view.round.node), None)


def _names(text: str | None, limit: int) -> bool:
    return str(limit) in (text or "")


def _whole(text: str | None) -> bool:
    return text is not None and text.isdecimal() and int(text) >= 1
