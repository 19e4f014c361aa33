"""Flow control per run: credit in bytes, granted by the receiver as it drains.

Each run has a window per direction. A sender may have `INITIAL_CREDIT` bytes under way that the receiver has not
drained; the receiver keeps no more than that for a run, so one reader that stalls holds its own run only.
"""

from iop.link.errors import WireError

#: bytes that may be sent for a run, each way, before any credit comes back
INITIAL_CREDIT = 256 * 1024
#: credit is given back in grants of at least so many bytes: four messages for a whole window
GRANT_AT = INITIAL_CREDIT // 4


class Flow:
    """The two windows of one run at one end, in bytes: what may be sent, and what may come."""

    __slots__ = ("_allowed", "_drained", "_held", "available")

    def __init__(self) -> None:
        #: what may still be sent
        self.available = INITIAL_CREDIT
        #: what the peer may still send, what came and is not drained, and what was drained and is not granted
        self._allowed = INITIAL_CREDIT
        self._held = 0
        self._drained = 0

    def spend(self, count: int) -> None:
        """`count` bytes were sent; never more than `available`."""
        if count > self.available:
            raise ValueError(f"{count} bytes sent on a credit of {self.available}")
        self.available -= count

    def grant(self, count: int) -> None:
        """The receiver drained `count` bytes. Raises WireError when that is more than was sent."""
        if count <= 0 or self.available + count > INITIAL_CREDIT:
            raise WireError(f"a credit of {count} bytes where {INITIAL_CREDIT - self.available} were under way")
        self.available += count

    def receive(self, count: int) -> None:
        """`count` bytes came. Raises WireError when the peer had no credit for them."""
        if count > self._allowed:
            raise WireError(f"a body piece of {count} bytes on a credit of {self._allowed}")
        self._allowed -= count
        self._held += count

    def drain(self, count: int) -> int:
        """The reader took `count` bytes; returns the credit to grant now (0 = keep it for a larger grant)."""
        if count > self._held:
            raise ValueError(f"{count} bytes drained of {self._held}")
        self._held -= count
        self._drained += count
        if self._drained < GRANT_AT:
            return 0
        grant, self._drained = self._drained, 0
        self._allowed += grant
        return grant


class Flows(dict[int, Flow]):
    """The windows of all runs that are open on one link, by number."""

    def open(self, run: int) -> None:
        """A run begins. Raises WireError when its number is in use."""
        if run in self:
            raise WireError(f"run {run} is already open")
        self[run] = Flow()

    def close(self, run: int) -> None:
        """The run is over; nothing happens when it already was."""
        self.pop(run, None)
