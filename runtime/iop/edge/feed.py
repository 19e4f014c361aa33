"""The Edge's event log: a ring of the last 8,192 events, and its readers as server-sent events.

A reader is a place in the ring, not a queue: a slow one costs nothing, and what it missed is told as one `gap`.
Numbers (`seq`) start at 1 with each Edge process.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec

from iop.domain.effects import Effects, Load, Outcome
from iop.domain.times import iso_utc

#: events kept for readers that come back (interface: "ring of 8,192")
RING_SIZE = 8_192
#: events rendered and written at once, so that one catching-up reader does not hold the loop
BATCH = 256
#: seconds of quiet after which a comment line is sent, to keep proxies and readers patient
KEEPALIVE_S = 15.0

DirectType = Literal["direct_started", "direct_ended"]


class Event(NamedTuple):
    """One thing that happened. `at` is wall time in seconds since 1970; absent facts are None.

    The facts stand in the order in which an effect of admission has them; they are rendered when somebody reads.
    """

    seq: int
    at: float
    type: str
    totals: Load | None = None
    request_id: str | None = None
    model: str | None = None
    provider_id: str | None = None
    node_id: str | None = None
    outcome: str | None = None
    reason: str | None = None
    provider: Load | None = None

    def data(self) -> dict[str, Any]:
        """Return the event's JSON object, every key present."""
        return {
            "seq": self.seq,
            "at": iso_utc(self.at),
            "type": self.type,
            "request_id": self.request_id,
            "model": self.model,
            "provider_id": self.provider_id,
            "node_id": self.node_id,
            "outcome": self.outcome,
            "reason": self.reason,
            "totals": _load(self.totals),
            "provider": _load(self.provider),
        }


class Feed:
    """The ring and its readers. Belongs to one event loop; `publish` never waits.

    `now_wall` gives wall time in seconds since 1970.
    """

    def __init__(self, now_wall: Callable[[], float], *, size: int = RING_SIZE) -> None:
        self._now = now_wall
        self._ring: deque[Event] = deque(maxlen=size)
        self._seq = 0
        self._totals: Load | None = None
        self._changed: asyncio.Event | None = None
        self._closed = False

    @property
    def last_seq(self) -> int:
        """Number of the newest event; 0 before the first."""
        return self._seq

    def publish(self, effects: Effects) -> None:
        """Append one event per effect, in order."""
        if not effects:
            return
        at = self._now()
        for effect in effects:
            self._seq += 1  # the lease and the error at an effect's end are for the door alone
            self._ring.append(Event(self._seq, at, *effect[:9]))
        self._totals = effects[-1].totals
        if self._changed is not None:
            self._wake()

    def publish_direct(
        self,
        type_: DirectType,
        *,
        request_id: str,
        model: str | None,
        node_id: str,
        outcome: Outcome | None = None,
        reason: str | None = None,
    ) -> None:
        """Append an event of the direct route. It carries the pool's last known totals, which it does not change."""
        self._seq += 1
        self._ring.append(
            Event(
                self._seq,
                self._now(),
                type_,
                request_id=request_id,
                model=model,
                node_id=node_id,
                outcome=outcome.value if outcome else None,
                reason=reason,
                totals=self._totals,
            )
        )
        self._wake()

    def events_after(self, seq: int) -> list[Event]:
        """Return the events still kept that are newer than `seq`, oldest first."""
        skip = max(0, seq - (self._seq - len(self._ring)))
        return list(islice(self._ring, skip, None))

    def close(self) -> None:
        """End every reader's stream after what was published so far; later readers get the ring and end at once."""
        self._closed = True
        self._wake()

    async def stream(self, after: int | None, *, keepalive: float = KEEPALIVE_S) -> AsyncIterator[bytes]:
        """Yield server-sent events newer than `after` until `close`; None means from this moment on.

        The place in the ring is fixed at the first step, and told by a first comment line. A reader whose events were
        overwritten, or whose `after` is from an earlier Edge process (higher than ours), gets `gap` first.
        """
        place = self._seq if after is None else after
        yield f": iop events after={place}\n\n".encode()
        while True:
            if place > self._seq or place < self._seq - len(self._ring):
                oldest = self._seq - len(self._ring)
                yield self._gap(place + 1, oldest)
                place = oldest
            batch = self._batch(place)
            if batch:
                place = batch[-1].seq
                yield b"".join(_wire(event) for event in batch)
            elif self._closed:
                return
            elif not await self._wait(keepalive):
                yield b": keep-alive\n\n"

    def _batch(self, place: int) -> list[Event]:
        skip = place - (self._seq - len(self._ring))
        return list(islice(self._ring, skip, skip + BATCH))

    def _gap(self, first: int, last: int) -> bytes:
        data = Event(last, self._now(), "gap").data() | {"from": first, "to": last}
        return _block(last, "gap", data)

    async def _wait(self, seconds: float) -> bool:
        """Wait for a change; False when none came in `seconds`."""
        changed = self._changed = self._changed or asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        # a fresh Event per wait: whoever waits holds the old one, so no reader can clear another's wake-up
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()


def _load(load: Load | None) -> dict[str, int] | None:
    if load is None:
        return None
    return {"capacity": load.capacity, "in_flight": load.in_flight, "queued": load.queued}


def _wire(event: Event) -> bytes:
    return _block(event.seq, event.type, event.data())


def _block(seq: int, type_: str, data: dict[str, Any]) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, type_.encode(), msgspec.json.encode(data))
