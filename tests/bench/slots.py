"""Never over capacity: by the event log, by every status, and by what the engines counted themselves."""

from collections import Counter

from tests.bench.record import Engine, Status
from tests.bench.verdict import Finding
from tests.bench.view import ENGINE_STILL, EdgeLife, View

_TAKES = frozenset({"granted", "adopted"})
_GIVES = frozenset({"ended", "returned"})


def over_capacity(run: View) -> list[Finding]:
    """Grants beyond a capacity, debts that grow, and counts that are not the sum of the grants."""
    found = []
    for life in run.lives:
        found += _by_log(life, run.begun.slots)
    previous: Status | None = None
    for one in run.statuses:
        found += _by_status(one, previous)
        previous = one
    return found


def _by_log(life: EdgeLife, slots: dict[str, int]) -> list[Finding]:
    """`slots`: the most that a provider ever had."""
    found = []
    held: Counter[str] = Counter()
    for one in life.events:
        event, provider = one.event, one.event["provider_id"]
        load = event["provider"]
        if provider is None or load is None:
            continue
        before = held[provider]
        held[provider] += (event["type"] in _TAKES) - (event["type"] in _GIVES)
        now, capacity = load["in_flight"], load["capacity"]
        if now != held[provider]:
            words = (
                f"{provider}: {now} in flight after {event['type']} #{event['seq']}, but {held[provider]} by the log"
            )
            found.append(Finding("over", one.t, words))
            held[provider] = now
        most = {"granted": capacity, "adopted": max(capacity, slots.get(provider, capacity))}
        if now > most.get(event["type"], max(capacity, before)):
            words = f"{provider}: {now} in flight of {capacity} after {event['type']} #{event['seq']}"
            found.append(Finding("over", one.t, words))
    return found


def _by_status(one: Status, previous: Status | None) -> list[Finding]:
    found = []
    earlier = {}
    if previous is not None and _same_config(one, previous):
        earlier = {p["provider_id"]: p for p in previous.status["provider_snapshots"]}
    for p in one.status["provider_snapshots"]:
        name, over = p["provider_id"], max(0, p["in_flight"] - p["capacity"])
        if over != p["over_by"] and p["state"] != "removing":
            found.append(f"{name}: {p['in_flight']} in flight of {p['capacity']}, over_by {p['over_by']}")
        was = earlier.get(name)
        if was is not None and p["over_by"] > was["over_by"] and p["adopted"] == was["adopted"]:
            found.append(f"{name}: over_by grew from {was['over_by']} to {p['over_by']}")
    return [Finding("over", one.t, text) for text in found]


def _same_config(one: Status, other: Status) -> bool:
    return all(
        one.status[part][name] == other.status[part][name]
        for part, name in (("edge", "instance_id"), ("config", "generation"))
    )


def over_offered(run: View) -> tuple[list[Finding], list[str]]:
    """Engines that were offered more than their slots; and, as notes, those that stood still and could not notice
    who had left them.
    """
    found, notes = [], []
    worst: dict[tuple[str, int], Engine] = {}
    began: dict[tuple[str, int], float] = {}
    for one in run.engines:
        key = (one.provider, one.life)
        began.setdefault(key, one.t)
        if key not in worst or one.stats["peak_offered"] > worst[key].stats["peak_offered"]:
            worst[key] = one
    for key, one in worst.items():
        slots, peak = run.begun.slots[one.provider], one.stats["peak_offered"]
        if peak <= slots:
            continue
        words = f"the engine of {one.provider} (life {one.life}) was offered {peak} at once, it has {slots} slots"
        still = [
            fault for fault in run.faults
            if fault.kind in ENGINE_STILL and run.provider_of(fault) == one.provider
            and began[key] - 5.0 <= fault.began <= one.t
        ]  # fmt: skip
        if still:
            notes.append(f"{words}; it stood still meanwhile (#{still[0].number} {still[0].kind})")
        else:
            found.append(Finding("offered", one.t, words))
    return found, notes
