"""The picture of the pool that status is made from."""

from dataclasses import FrozenInstanceError

import pytest

from iop.domain.snapshots import ProviderState
from tests.fakes.desk import Desk


def test_a_waiter_counts_once_in_totals_and_at_each_provider_that_could_serve_it() -> None:
    """A provider's queued is the waiters it could serve; an excluded provider does not count a returned one."""
    desk = Desk({"a": 1, "b": 1}, {"m": ("a", "b"), "only-b": ("b",)})
    desk.ask("r1", "r2", "w1")
    desk.ask("w2", model="only-b")
    assert (desk.provider("a").queued, desk.provider("b").queued) == (1, 2)
    assert desk.snapshot().totals.queued == 2
    desk.do("give_back", desk.lease_of("r1"), "reset")
    assert (desk.provider("a").queued, desk.provider("b").queued) == (0, 2)


def test_ages_are_those_of_the_oldest() -> None:
    """Seconds since the oldest grant of a provider and since the oldest arrival of a model; None when there is none."""
    desk = Desk({"a": 1, "b": 1}, {"m": ("a",), "n": ("b",)})
    desk.ask("r1")
    desk.now = 103.0
    desk.ask("w1")
    desk.now = 104.0
    desk.ask("w2")
    desk.now = 107.0
    assert (desk.provider("a").oldest_in_flight_s, desk.provider("b").oldest_in_flight_s) == (7.0, None)
    assert (desk.model("m").queued, desk.model("m").oldest_wait_s) == (2, 4.0)
    assert (desk.model("n").queued, desk.model("n").oldest_wait_s) == (0, None)
    desk.end("r1")
    assert (desk.provider("a").oldest_in_flight_s, desk.model("m").oldest_wait_s) == (0.0, 3.0)


def test_the_oldest_wait_of_a_model_spans_its_groups() -> None:
    """Returned requests wait apart but count for the same model."""
    desk = Desk({"a": 1, "b": 1})
    desk.ask("r1", "r2")
    desk.now = 101.0
    desk.ask("w1", "w2")
    desk.do("give_back", desk.lease_of("r1"), "reset")
    assert (desk.model("m").queued, desk.model("m").oldest_wait_s) == (2, 1.0)


def test_totals_capacity_counts_every_declared_provider() -> None:
    """Ready or not, each declared provider's slots are in the capacity."""
    desk = Desk({"a": 3, "b": 4, "c": 3}, connect=False)
    assert desk.snapshot().totals.capacity == 10
    assert {provider.state for provider in desk.snapshot().providers} == {ProviderState.OFFLINE}


def test_a_picture_is_frozen_and_does_not_follow_the_pool() -> None:
    """What was shown stays as it was."""
    desk = Desk({"a": 1})
    before = desk.snapshot()
    desk.ask("r1")
    assert (before.totals.in_flight, desk.snapshot().totals.in_flight) == (0, 1)
    with pytest.raises(FrozenInstanceError):
        before.totals.in_flight = 5  # type: ignore[misc]
