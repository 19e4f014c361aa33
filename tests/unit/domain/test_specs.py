"""What admission is configured with."""

from iop.domain.specs import LineBounds, PoolSpec


def test_the_bounds_default_to_those_of_the_interface() -> None:
    """queue.max_waiting 256, queue.max_wait 120 s, queue.offline_grace 30 s; a pool has them when none are given."""
    bounds = PoolSpec((), {}).bounds
    assert (bounds.max_waiting, bounds.max_wait, bounds.offline_grace) == (256, 120.0, 30.0)
    assert bounds == LineBounds()
