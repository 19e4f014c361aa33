"""The steps that admission is made of, by themselves."""

from iop.domain.pool import Pool
from iop.domain.specs import LineBounds, PoolSpec
from tests.fakes.desk import Desk


def test_effects_are_handed_out_once() -> None:
    """What was recorded is taken in order, and a second taking is empty."""
    pool = Pool(LineBounds())
    pool.show_node(pool.fleet.node("n"), 0.0)
    assert pool.take_effects() == ()
    pool.fleet.node("n").connected = True
    pool.show_node(pool.fleet.node("n"), 0.0)
    assert len(pool.take_effects()) == 1
    assert pool.take_effects() == ()


def test_a_pool_without_a_config_has_the_default_wedge_after() -> None:
    """As its bounds, it holds until the first config."""
    assert Pool(LineBounds()).wedge_after == PoolSpec((), {}).wedge_after == 120.0


def test_a_slot_is_given_back_in_one_place() -> None:
    """Whatever ends a grant, its provider's slot and its lease are free together."""
    desk = Desk({"a": 2})
    desk.ask("r1", "r2")
    leases = [desk.lease_of("r1"), desk.lease_of("r2")]
    desk.end("r1")
    desk.do("give_back", leases[1], "reset")
    assert [desk.admission.lease(lease) for lease in leases] == [None, None]
    assert desk.provider("a").in_flight == 0
