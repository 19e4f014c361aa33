"""What strangers make us log: each thing once in a while, and never more lines than a person would read."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

#: seconds until the same thing of the same peer is told again
TELL_EVERY = 600.0
#: different things told of one peer in that time
MAX_EACH = 20
#: peers remembered
MAX_PEERS = 256


@dataclass(slots=True)
class _Told:
    since: float
    things: set[str] = field(default_factory=set)


class Seldom:
    """Decides whether a line about a peer is written. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: OrderedDict[str, _Told] = OrderedDict()

    def may_tell(self, peer: str, thing: str) -> bool:
        """Return True when `thing` of `peer` (its host) was not told lately and not too much was told of it."""
        now = self._clock()
        told = self._told.get(peer)
        if told is None or now - told.since >= TELL_EVERY:
            self._told.pop(peer, None)
            told = self._told[peer] = _Told(now)
            if len(self._told) > MAX_PEERS:
                self._told.popitem(last=False)
        if thing in told.things or len(told.things) >= MAX_EACH:
            return False
        told.things.add(thing)
        return True
