"""Moments as text."""

from iop.domain.times import iso_utc, iso_utc_or_none


def test_a_moment_is_utc_with_milliseconds_and_z():
    """The epoch and a fraction are written in one fixed shape."""
    assert iso_utc(0.0) == "1970-01-01T00:00:00.000Z"
    assert iso_utc(1_700_000_000.25) == "2023-11-14T22:13:20.250Z"


def test_no_moment_stays_none():
    """An absent time is null, not a made-up one."""
    assert iso_utc_or_none(None) is None
    assert iso_utc_or_none(0.0) == "1970-01-01T00:00:00.000Z"
