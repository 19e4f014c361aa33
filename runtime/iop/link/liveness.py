"""Is the peer alive: pings, a deadline, and mercy for our own lateness.

Silence is counted in *own time*: a tick that comes late (a busy loop, a suspended machine) counts as two intervals at
most, because we cannot blame the peer for a time in which we did not listen. Any byte received ends the silence.
"""

from enum import StrEnum

#: ticks in one `dead_after`; the deadline is the last but one, so that a dead peer is noticed *within* `dead_after`
TICKS = 10
_DEADLINE_TICKS = 9
#: a ping goes out each so many ticks: a healthy but idle peer is heard three times before the deadline
_PING_TICKS = 3
#: a peer that talks but has answered no ping for so many `dead_after` does not hear us
DEAF_FACTOR = 4


class Verdict(StrEnum):
    """What a tick asks for."""

    WELL = "well"
    PING = "ping"
    DEAD = "dead"


class Liveness:
    """The state of one peer. `dead_after` in seconds; call `tick` each `interval` seconds with the current time."""

    def __init__(self, dead_after: float, now: float) -> None:
        self._interval = dead_after / TICKS
        self._ticked_at = now
        self._silence = 0.0
        self._unheard = 0.0
        self._since_ping = 0.0

    @property
    def interval(self) -> float:
        """Seconds between two ticks."""
        return self._interval

    def heard(self) -> None:
        """Bytes came from the peer."""
        self._silence = 0.0

    def answered(self) -> None:
        """The peer answered a ping: it hears us."""
        self._unheard = 0.0

    def retime(self, dead_after: float) -> None:
        """Use another `dead_after` from now on."""
        self._interval = dead_after / TICKS

    def elapsed(self, now: float) -> float:
        """Own time since the last tick: seconds, two intervals at most. Starts the next tick."""
        elapsed = min(max(now - self._ticked_at, 0.0), 2 * self._interval)
        self._ticked_at = now
        return elapsed

    def tick(self, now: float) -> Verdict:
        """Count the time since the last tick and say what to do now."""
        elapsed = self.elapsed(now)
        self._silence += elapsed
        self._unheard += elapsed
        self._since_ping += elapsed
        # half an interval of tolerance: ticks jitter, and the deadline is met on a tick, not after it
        half = self._interval / 2
        if self._silence >= _DEADLINE_TICKS * self._interval - half:
            return Verdict.DEAD
        if self._unheard >= DEAF_FACTOR * TICKS * self._interval:
            return Verdict.DEAD
        if self._since_ping >= _PING_TICKS * self._interval - half:
            self._since_ping = 0.0
            return Verdict.PING
        return Verdict.WELL
