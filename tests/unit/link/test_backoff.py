"""B43: the delays grow, are capped and jittered, and only a stable accepted session resets them."""

from hypothesis import given
from hypothesis import strategies as st

from iop.link.backoff import Backoff

ALMOST_ONE = 1 - 1e-12


def delays(backoff: Backoff, count: int) -> list[float]:
    """The next delays without jitter (at their largest)."""
    return [round(backoff.delay(ALMOST_ONE), 3) for _ in range(count)]


def test_delays_double_up_to_the_cap():
    """Exponential, capped, for ever (no overflow in a long outage)."""
    backoff = Backoff(first=0.25, cap=15)
    assert delays(backoff, 8) == [0.25, 0.5, 1, 2, 4, 8, 15, 15]
    assert set(delays(backoff, 2000)) == {15}


@given(st.floats(0, 1, exclude_max=True))
def test_jitter_spreads_over_half_of_the_delay(jitter):
    """Nodes that lost their Edge together do not come back together."""
    assert 0.125 <= Backoff(first=0.25).delay(jitter) < 0.25 + 1e-9


def test_a_link_that_is_refused_or_lost_soon_resets_nothing():
    """A connection that opens and ends at once is no success."""
    backoff = Backoff(first=1, cap=64, stable_after=10)
    for now in range(3):
        backoff.lost(float(now))
        backoff.delay(0.0)
    backoff.accepted(100.0)
    backoff.lost(109.9)
    assert delays(backoff, 1) == [8]


def test_a_stable_session_resets():
    """After a session that lasted, the first delay is short again."""
    backoff = Backoff(first=1, cap=64, stable_after=10)
    delays(backoff, 5)
    backoff.accepted(100.0)
    backoff.lost(110.0)
    assert delays(backoff, 1) == [1]


def test_an_old_acceptance_does_not_count_for_a_later_failure():
    """Each session is judged by its own times."""
    backoff = Backoff(first=1, cap=64, stable_after=10)
    backoff.accepted(100.0)
    backoff.lost(101.0)
    delays(backoff, 3)
    backoff.lost(500.0)
    assert delays(backoff, 1) == [8]


def test_a_refusal_waits_the_longest_at_once():
    """Trying a wrong token sooner changes nothing."""
    backoff = Backoff(first=1, cap=64)
    assert backoff.slow(ALMOST_ONE) > 63
    assert backoff.slow(0.0) == 32


def test_an_edge_that_said_goodbye_is_dialled_often_for_a_while():
    """Its successor is found within a second; after a minute the delays are those of any outage, and no sooner."""
    backoff = Backoff(first=0.25, cap=15)
    backoff.expected_back(100.0)
    assert delays(backoff, 6) == [0.25, 0.5, 1, 1, 1, 1]
    backoff.lost(159.9)
    assert delays(backoff, 1) == [1]
    backoff.lost(160.0)
    assert delays(backoff, 2) == [15, 15]
