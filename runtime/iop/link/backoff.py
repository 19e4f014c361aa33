"""When to redial: exponential, jittered, capped; reset only by a session that was accepted and lasted."""

#: seconds before the first redial (at most; half of it at least)
FIRST_DELAY = 0.25
#: seconds between two redials at most, and always after a refusal
MAX_DELAY = 15.0
#: an accepted session that lasted so many seconds was stable
STABLE_AFTER = 10.0
#: seconds between two redials at most while an Edge that said goodbye is expected back, and how long that is
HURRIED_DELAY = 1.0
EXPECTED_WITHIN = 60.0


class Backoff:
    """The delays of one dialer, in seconds. `jitter` is a random number in [0, 1) that the caller draws."""

    def __init__(
        self, *, first: float = FIRST_DELAY, cap: float = MAX_DELAY, stable_after: float = STABLE_AFTER
    ) -> None:
        self._first = first
        self._cap = cap
        self._stable_after = stable_after
        self._failures = 0
        self._accepted_at: float | None = None
        self._expected_until = float("-inf")
        self._hurried = False

    def accepted(self, now: float) -> None:
        """The Edge took us in (its `config` came)."""
        self._accepted_at = now

    def lost(self, now: float) -> None:
        """The connection ended or could not be made; only a stable session clears the count of failures."""
        if self._accepted_at is not None and now - self._accepted_at >= self._stable_after:
            self._failures = 0
        self._accepted_at = None
        self._hurried = now < self._expected_until

    def expected_back(self, now: float) -> None:
        """The Edge said that it stops, and has: a successor is likely to be there soon."""
        self._expected_until = now + EXPECTED_WITHIN
        self._hurried = True

    def delay(self, jitter: float) -> float:
        """How long to wait before the next attempt; doubles with each call up to the cap."""
        cap = min(self._cap, HURRIED_DELAY) if self._hurried else self._cap
        # the exponent is bounded too: 2.0 ** 1100 would overflow in a long outage
        whole = min(cap, self._first * 2.0 ** min(self._failures, 32))
        self._failures += 1
        return whole * (0.5 + jitter / 2)

    def slow(self, jitter: float) -> float:
        """How long to wait after a refusal: trying sooner changes nothing."""
        self._failures += 1
        return self._cap * (0.5 + jitter / 2)
