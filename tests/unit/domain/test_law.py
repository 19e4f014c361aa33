"""The conservation law as a check of snapshots and of status JSON."""

from dataclasses import asdict, replace

import pytest

from iop.domain.law import violations, violations_of_status
from iop.domain.snapshots import PoolSnapshot
from tests.fakes.desk import Desk, pool_of


def _busy_snapshot() -> PoolSnapshot:
    desk = Desk({"a": 1, "b": 1}, max_waiting=2)
    desk.ask("r1", "r2", "r3", "r4", "r5")
    desk.end("r1")
    desk.do("give_back", desk.lease_of("r2"), "reset")
    return desk.snapshot()


def _status_of(snapshot: PoolSnapshot) -> dict[str, object]:
    return {
        "totals": asdict(snapshot.totals),
        "provider_snapshots": [asdict(provider) for provider in snapshot.providers],
    }


def test_a_lawful_pool_has_no_violations() -> None:
    """A pool with held, waiting, refused and returned requests satisfies both equations, as snapshot and as JSON."""
    snapshot = _busy_snapshot()
    assert min(snapshot.totals.queued, snapshot.totals.returned, snapshot.totals.refused) > 0
    assert violations(snapshot) == []
    assert violations_of_status(_status_of(snapshot)) == []


@pytest.mark.parametrize(
    "field",
    [
        *("received", "refused", "expired", "abandoned", "queued", "admitted", "adopted"),
        *("completed", "failed", "cancelled", "returned", "in_flight"),
    ],
)
@pytest.mark.parametrize("by", [1, -100])
def test_each_counter_of_the_totals_is_weighed(field: str, by: int) -> None:
    """One counter that is off breaks the law, in both forms, in the same words."""
    snapshot = _busy_snapshot()
    wrong = replace(snapshot, totals=replace(snapshot.totals, **{field: getattr(snapshot.totals, field) + by}))
    assert any(line.startswith("totals: ") for line in violations(wrong))
    assert violations_of_status(_status_of(wrong)) == violations(wrong)


@pytest.mark.parametrize("field", ["admitted", "adopted", "completed", "failed", "cancelled", "returned", "in_flight"])
def test_each_counter_of_a_provider_is_weighed(field: str) -> None:
    """One provider's counter that is off is told with the provider's name."""
    snapshot = _busy_snapshot()
    first, *others = snapshot.providers
    wrong = replace(snapshot, providers=(replace(first, **{field: getattr(first, field) + 1}), *others))
    assert any(line.startswith("provider a: admitted") for line in violations(wrong))
    assert violations_of_status(_status_of(wrong)) == violations(wrong)


def test_totals_keep_what_removed_providers_counted() -> None:
    """Totals above the providers' sum are lawful (a provider was removed); below it they are not."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", "r2")
    desk.end("r1")
    desk.end("r2")
    desk.do("configure", pool_of({"a": 1}))
    snapshot = desk.snapshot()
    assert [(provider.provider_id, provider.admitted) for provider in snapshot.providers] == [("a", 1)]
    assert (snapshot.totals.admitted, violations(snapshot)) == (2, [])
    thrice = replace(snapshot, providers=snapshot.providers * 3)
    assert "totals: admitted 2 is below the providers' sum 3" in violations(thrice)


@pytest.mark.parametrize("value", [None, "3", 1.0, True])
def test_a_counter_that_is_no_count_is_a_violation(value: object) -> None:
    """Status JSON with a counter that is missing or of another type is told, not crashed on."""
    status = _status_of(_busy_snapshot())
    status["totals"]["admitted"] = value  # type: ignore[index]
    assert violations_of_status(status) == [f"totals: admitted is {value!r}, not a count"]


@pytest.mark.parametrize("status", [{}, {"totals": {}}, {"totals": {}, "provider_snapshots": [3]}])
def test_status_of_another_shape_is_a_violation(status: dict[str, object]) -> None:
    """JSON that is no status is told in one line."""
    assert len(violations_of_status(status)) == 1
