"""The conservation law of the pool, checked on a snapshot or on status JSON by one implementation.

Per provider and in the totals (which keep the counters of removed providers):

    admitted + adopted = completed + failed + cancelled + returned + in_flight
    received = refused + expired + abandoned + queued + (admitted - returned)        (totals only)
"""

from collections.abc import Iterable, Mapping

from iop.domain.snapshots import PoolSnapshot

_GRANTS = ("admitted", "adopted")
_FATES = ("completed", "failed", "cancelled", "returned", "in_flight")
_SLOTS = (*_GRANTS, *_FATES)
_POOL = ("received", "refused", "expired", "abandoned", "queued")

_Counts = dict[str, int]


def violations(snapshot: PoolSnapshot) -> list[str]:
    """Say in words where the snapshot breaks the law; empty = it holds."""
    totals = {key: getattr(snapshot.totals, key) for key in (*_SLOTS, *_POOL)}
    providers = [
        (provider.provider_id, {key: getattr(provider, key) for key in _SLOTS}) for provider in snapshot.providers
    ]
    return _violations(totals, providers)


def violations_of_status(status: Mapping[str, object]) -> list[str]:
    """Check the JSON of the status surface (`totals`, `provider_snapshots`) in the same way."""
    totals = status.get("totals")
    snapshots = status.get("provider_snapshots")
    if not isinstance(totals, Mapping) or not isinstance(snapshots, list):
        return ["status has no totals or no provider_snapshots"]
    found: list[str] = []
    providers: list[tuple[str, _Counts]] = []
    for entry in snapshots:
        if not isinstance(entry, Mapping):
            return ["an entry of provider_snapshots is not an object"]
        name = str(entry.get("provider_id"))
        providers.append((name, _read(f"provider {name}", entry, _SLOTS, found)))
    pool = _read("totals", totals, (*_SLOTS, *_POOL), found)
    return found or _violations(pool, providers)


def _read(where: str, counters: Mapping[str, object], keys: Iterable[str], found: list[str]) -> _Counts:
    """Read the counters; one that is missing or no whole number is a violation of its own."""
    counts: _Counts = {}
    for key in keys:
        value = counters.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            counts[key] = value
        else:
            found.append(f"{where}: {key} is {value!r}, not a count")
    return counts


def _violations(totals: _Counts, providers: Iterable[tuple[str, _Counts]]) -> list[str]:
    sums = dict.fromkeys(_SLOTS, 0)
    found: list[str] = []
    for name, counts in providers:
        found += _of_slots(f"provider {name}", counts)
        for key in _SLOTS:
            sums[key] += counts[key]
    found += _of_slots("totals", totals)
    found += _of_line(totals)
    if totals["in_flight"] != sums["in_flight"]:
        found.append(f"totals: in_flight {totals['in_flight']} is not the providers' sum {sums['in_flight']}")
    found += [
        f"totals: {key} {totals[key]} is below the providers' sum {sums[key]}"
        for key in _SLOTS
        if totals[key] < sums[key]
    ]
    return found


def _of_slots(where: str, counts: _Counts) -> list[str]:
    """Check the first equation, and that nothing is negative."""
    found = [f"{where}: {key} is {count}" for key, count in counts.items() if count < 0]
    grants = counts["admitted"] + counts["adopted"]
    fates = sum([counts[key] for key in _FATES])
    if grants != fates:
        terms = " + ".join(f"{key} {counts[key]}" for key in _FATES)
        found.append(
            f"{where}: admitted {counts['admitted']} + adopted {counts['adopted']} = {grants}, but {terms} = {fates}",
        )
    return found


def _of_line(pool: _Counts) -> list[str]:
    """Check the second equation."""
    held = pool["admitted"] - pool["returned"]
    right = sum(pool[key] for key in _POOL[1:]) + held
    if pool["received"] == right:
        return []
    terms = " + ".join(f"{key} {pool[key]}" for key in _POOL[1:])
    return [f"totals: received {pool['received']}, but {terms} + (admitted - returned) {held} = {right}"]
