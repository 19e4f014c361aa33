"""How a moment is written for people and tools: ISO-8601, UTC, milliseconds, with a Z."""

from datetime import UTC, datetime


def iso_utc(wall: float) -> str:
    """Write `wall` (seconds since 1970, UTC) as `2026-01-31T12:00:00.000Z`."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_utc_or_none(wall: float | None) -> str | None:
    """Write `wall` as `iso_utc` does; None stays None."""
    return None if wall is None else iso_utc(wall)
