"""The bytes of request bodies that are held."""

import pytest

from iop.domain.errors import QueueFull
from iop.edge.stock import BodyStock


def test_bodies_together_stay_under_the_limit() -> None:
    """What does not fit beside others is refused with the knob's name; room that is freed can be used again."""
    stock = BodyStock()
    with stock.open(100) as first, stock.open(100) as second:
        first.add(60)
        second.add(40)
        with pytest.raises(QueueFull, match=r"queue\.max_bytes: 100") as refused:
            second.add(1)
        assert refused.value.retry_after == 1
        assert stock.held == 100
        first.release()
        second.add(60)
        assert stock.held == 100
    assert stock.held == 0


def test_a_body_that_is_alone_always_fits() -> None:
    """A body over the whole limit could wait for ever; `http.max_body` bounds it."""
    stock = BodyStock()
    with stock.open(10) as hold:
        hold.check(1000)
        hold.add(600)
        hold.add(400)
        with stock.open(10) as other, pytest.raises(QueueFull):
            other.check(1)


def test_release_is_idempotent() -> None:
    """A body is given back once, whoever says so first."""
    stock = BodyStock()
    with stock.open(10) as hold:
        hold.add(10)
        hold.release()
        hold.release()
        assert stock.held == 0
    assert stock.held == 0
