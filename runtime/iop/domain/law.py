"""The conservation law of the pool, checked on a snapshot or on status JSON by one implementation.

Per provider and in the totals (which keep the counters of removed providers):

    admitted + adopted = completed + failed + cancelled + returned + in_flight
    received = refused + expired + abandoned + queued + (admitted - returned)        (totals only)
"""

from collections.abc import Iterable, Mapping

from iop.domain.snapshots import PoolSnapshot

_GRANTS = ("admitted", "adopted")
_FATES = ("completed", "failed", "cancelled", "returned", "in_flight")
_POOL = ("received", "refused", "expired", "abandoned", "queued")


def violations(snapshot: PoolSnapshot) -> list[str]:
    """Say in words where the snapshot breaks the law; empty = it holds."""
    totals = {key: getattr(snapshot.totals, key) for key in (*_GRANTS, *_FATES, *_POOL)}
    providers = [
        (provider.provider_id, {key: getattr(provider, key) for key in (*_GRANTS, *_FATES)})
        for provider in snapshot.providers
    ]
    return _violations(totals, providers)


def violations_of_status(status: Mapping[str, object]) -> list[str]:
    """Check the JSON of the status surface (`totals`, `provider_snapshots`) in the same way."""
    totals = status.get("totals")
    snapshots = status.get("provider_snapshots")
    if not isinstance(totals, Mapping) or not isinstance(snapshots, list):
        return ["status has no totals or no provider_snapshots"]
    providers: list[tuple[str, Mapping[str, object]]] = []
    for entry in snapshots:
        if not isinstance(entry, Mapping):
            return ["an entry of provider_snapshots is not an object"]
        providers.append((str(entry.get("provider_id")), entry))
    return _violations(totals, providers)


def _violations(totals: Mapping[str, object], providers: Iterable[tuple[str, Mapping[str, object]]]) -> list[str]:
    found: list[str] = []
    pool = _numbers("totals", totals, (*_GRANTS, *_FATES, *_POOL), found)
    sums = dict.fromkeys((*_GRANTS, *_FATES), 0)
    for name, counters in providers:
        numbers = _numbers(f"provider {name}", counters, (*_GRANTS, *_FATES), found)
        found += _slot_equation(f"provider {name}", numbers)
        for key in sums:
            sums[key] += numbers[key]
    found += _slot_equation("totals", pool)
    found += _line_equation(pool)
    if pool["in_flight"] != sums["in_flight"]:
        found.append(f"totals: in_flight {pool['in_flight']} is not the providers' sum {sums['in_flight']}")
    found += [
        f"totals: {key} {pool[key]} is below the providers' sum {sums[key]}" for key in sums if pool[key] < sums[key]
    ]
    return found


def _numbers(where: str, counters: Mapping[str, object], keys: Iterable[str], found: list[str]) -> dict[str, int]:
    """Read the counters; one that is missing, no count, or negative is a violation of its own and read as 0."""
    numbers: dict[str, int] = {}
    for key in keys:
        value = counters.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            numbers[key] = value
        else:
            found.append(f"{where}: {key} is {value!r}, not a count")
            numbers[key] = 0
    return numbers


def _slot_equation(where: str, numbers: Mapping[str, int]) -> list[str]:
    left = sum(numbers[key] for key in _GRANTS)
    right = sum(numbers[key] for key in _FATES)
    if left == right:
        return []
    terms = " + ".join(f"{key} {numbers[key]}" for key in _FATES)
    return [f"{where}: admitted {numbers['admitted']} + adopted {numbers['adopted']} = {left}, but {terms} = {right}"]


def _line_equation(pool: Mapping[str, int]) -> list[str]:
    held = pool["admitted"] - pool["returned"]
    right = pool["refused"] + pool["expired"] + pool["abandoned"] + pool["queued"] + held
    if pool["received"] == right:
        return []
    terms = " + ".join(f"{key} {pool[key]}" for key in _POOL[1:])
    return [f"totals: received {pool['received']}, but {terms} + (admitted - returned) {held} = {right}"]
