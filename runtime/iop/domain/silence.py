"""What is heard of a provider, and for how long nothing was: how one that stands still becomes suspect.

A byte or an end of any of its work is a sign of life of the whole provider, so one time per provider is enough: when
that is old, every stream of it that began before has been silent as long. The silence of an answer in one piece says
nothing, nor that of work whose bytes are not passed on here (adopted, or its client has left).
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Silence:
    """`heard_at`: last byte or end, or the grant that ended an idle time (seconds). `answers`: the last probe was
    answered. `limit`: the `wedge_after` that was exceeded while it is suspect, else None.

    `streams` maps leases whose silence is evidence to their beginning, oldest first. `held_up` are leases of which
    nothing can come because their client does not read.
    """

    heard_at: float = 0.0
    answers: bool = True
    limit: float | None = None
    streams: dict[int, float] = field(default_factory=dict)
    held_up: set[int] = field(default_factory=set)

    @property
    def is_suspect(self) -> bool:
        """True from the moment at which it was found silent for too long until something clears it."""
        return self.limit is not None

    def heard(self, now: float) -> bool:
        """Take a sign of life; True when it clears a suspicion."""
        self.heard_at = now
        suspected, self.limit = self.is_suspect, None
        return suspected

    def resumed(self, lease_id: int, now: float) -> None:
        """Bytes of this lease can come again, or need not come any more: silence counts from now."""
        if lease_id in self.held_up:
            self.held_up.remove(lease_id)
            self.heard_at = now

    def ended(self, lease_id: int, now: float) -> None:
        """Take the end of a lease: a sign of life, whatever the end."""
        self.streams.pop(lease_id, None)
        self.held_up.discard(lease_id)
        self.heard(now)

    def unheard(self, lease_id: int, now: float) -> None:
        """Nothing of this lease comes here any more: its silence is no evidence from now on."""
        self.streams.pop(lease_id, None)
        self.resumed(lease_id, now)

    def probed(self, now: float, *, answered: bool) -> None:
        """Take a probe. An answered one clears a suspicion when no stream has been silent for too long."""
        self.answers = answered
        if answered and self.limit is not None and not self._silent_streams(now - self.limit):
            self.limit = None

    def due(self, wedge_after: float) -> float | None:
        """Tell when it becomes suspect (seconds) if it stays full, with waiters and as silent as it is."""
        since = next(iter(self.streams.values()), None) if self.answers else self.heard_at
        if since is None or self.is_suspect or self.held_up:
            return None
        return max(since, self.heard_at) + wedge_after

    def describe(self, now: float) -> str:
        """Say in words for how long nothing came, and what else was seen."""
        seen = []
        if silent := self._silent_streams(now - (self.limit or 0.0)):
            seen.append(f"{silent} silent stream{'s' if silent > 1 else ''}")
        if not self.answers:
            seen.append("its engine does not answer the probe")
        text = f"no byte and no end for {round(now - self.heard_at, 1):g}s, full and with requests waiting"
        return "; ".join((text, *seen))

    def _silent_streams(self, before: float) -> int:
        return sum(began <= before for began in self.streams.values())
