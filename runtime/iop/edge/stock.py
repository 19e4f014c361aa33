"""How many bytes of request bodies the Edge holds, from their first byte read to the first byte of their answer."""

from typing import Self

from iop.domain import refusals


class BodyStock:
    """All bodies together; `held` in bytes, as decoded."""

    def __init__(self) -> None:
        self.held = 0

    def open(self, limit: int) -> "BodyHold":
        """Return the hold of one body under `limit` (`queue.max_bytes`); nothing is held yet."""
        return BodyHold(self, limit)


class BodyHold:
    """One body's share of the stock, as a context: leaving it releases the share."""

    def __init__(self, stock: BodyStock, limit: int) -> None:
        self._stock = stock
        self._limit = limit
        self._own = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def size(self) -> int:
        """Bytes of this body that count now."""
        return self._own

    def check(self, more: int) -> None:
        """Raise QueueFull when `more` bytes do not fit. A body that is alone always fits: waiting would not help it."""
        others = self._stock.held - self._own
        if others > 0 and self._stock.held + more > self._limit:
            raise refusals.bytes_full(self._limit)

    def add(self, more: int) -> None:
        """Hold `more` bytes of this body. Raises QueueFull."""
        self.check(more)
        self._own += more
        self._stock.held += more

    def release(self) -> None:
        """The body counts no longer. Safe to call twice."""
        self._stock.held -= self._own
        self._own = 0
