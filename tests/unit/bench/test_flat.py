"""What counts as flat."""

import random

import pytest

from tests.bench.flat import Limit, flatness

LIMIT = Limit(0.05, 4.0)


def _noisy(base: float, slope: float, count: int = 200) -> list[float]:
    dice = random.Random(1)
    return [base + slope * number + dice.uniform(-2, 2) for number in range(count)]


def test_noise_around_one_value_is_flat() -> None:
    """Whatever the samples do between the windows."""
    found = flatness(_noisy(100, 0), LIMIT)
    assert found.ok
    assert abs(found.growth) < 0.02
    assert len(found.medians) == 5


def test_a_slow_creep_is_not_flat() -> None:
    """A twentieth of a unit with each sample is a leak, though no sample stands out."""
    found = flatness(_noisy(100, 0.05), LIMIT)
    assert not found.ok
    assert found.first < found.last


def test_a_series_that_falls_is_flat() -> None:
    """Nothing grows."""
    assert flatness(_noisy(100, -0.2), LIMIT).ok


def test_the_warm_up_is_not_judged_and_a_peak_does_not_matter() -> None:
    """Caches fill in the first quarter; one sample is no median."""
    series = [float(number) for number in range(50)] + [50.0] * 150
    series[120] = series[-1] = 500.0
    assert flatness(series, LIMIT).ok
    assert flatness(series, LIMIT).medians == (50.0,) * 5


def test_the_larger_of_the_two_limits_counts() -> None:
    """A share for what is large, a number for what is small."""
    assert Limit(0.05, 4.0).allows(10, 14)
    assert not Limit(0.05, 4.0).allows(10, 14.1)
    assert Limit(0.05, 4.0).allows(1000, 1050)
    assert not Limit(0.05, 4.0).allows(1000, 1050.5)


def test_too_few_samples_are_no_proof() -> None:
    """A run that was too short says so instead of passing."""
    with pytest.raises(ValueError, match="too few"):
        flatness([1.0] * 12, LIMIT)
