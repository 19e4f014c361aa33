"""Liveness in fake time: within `dead_after`, and without blame for our own lateness."""

import pytest

from iop.link.liveness import DEAF_FACTOR, TICKS, Liveness, Verdict


@pytest.mark.parametrize("dead_after", [0.5, 15.0, 60.0])
@pytest.mark.parametrize("phase", [0.0, 0.5, 0.99])
def test_a_silent_peer_is_noticed_within_dead_after(dead_after, phase):
    """Wherever between two ticks the last byte came, the verdict comes in time and not much too early."""
    interval = dead_after / TICKS
    live = Liveness(dead_after, 0.0)
    last_heard = phase * interval
    live.heard()
    now, verdict = 0.0, Verdict.WELL
    while verdict is not Verdict.DEAD:
        now += interval
        verdict = live.tick(now)
    assert 0.75 * dead_after <= now - last_heard <= dead_after


def test_pings_go_out_three_times_in_dead_after():
    """An idle link is not a silent one."""
    live = Liveness(10.0, 0.0)
    verdicts = []
    for tick in range(1, 31):
        verdict = live.tick(float(tick))
        verdicts.append(verdict)
        if verdict is Verdict.PING:
            live.heard()
            live.answered()
    assert verdicts.count(Verdict.PING) == 10
    assert Verdict.DEAD not in verdicts


def test_a_late_tick_forgives():
    """B45: a loop that was blocked for far longer than dead_after does not call the peer dead on its late tick."""
    live = Liveness(10.0, 0.0)
    for tick in range(1, 6):
        live.tick(float(tick))
    assert live.tick(500.0) is not Verdict.DEAD
    live.heard()
    assert live.tick(501.0) is not Verdict.DEAD


def test_a_peer_that_stays_silent_after_a_late_tick_is_still_noticed():
    """Forgiveness is for the time we did not listen, not for ever."""
    live = Liveness(10.0, 0.0)
    live.tick(500.0)
    verdicts = [live.tick(500.0 + tick) for tick in range(1, 9)]
    assert verdicts[-1] is Verdict.DEAD


def test_a_peer_that_talks_but_never_answers_is_deaf():
    """One-way loss: bytes come, pongs do not."""
    live = Liveness(10.0, 0.0)
    verdict, tick = Verdict.WELL, 0
    while verdict is not Verdict.DEAD:
        tick += 1
        live.heard()
        verdict = live.tick(float(tick))
    assert tick == DEAF_FACTOR * 10


def test_another_dead_after_counts_from_now_on():
    """The node learns the Edge's number with its config."""
    live = Liveness(10.0, 0.0)
    live.retime(100.0)
    assert live.interval == 10.0


def test_a_clock_that_stands_still_or_goes_back_counts_nothing():
    """Time that did not pass is no silence."""
    live = Liveness(10.0, 100.0)
    assert all(live.tick(50.0) is Verdict.WELL for _ in range(50))
