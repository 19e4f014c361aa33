"""Request bodies that are being read, so that a stop does not wait for a client that is slow to send one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from iop.domain import refusals

#: seconds that a body gets to be whole once the Edge stops; its request is then refused at the door like any other
GRACE = 1.0


class Uploads:
    """All bodies under way. Belongs to one event loop."""

    def __init__(self, grace: float = GRACE) -> None:
        self._grace = grace
        self._limits: set[asyncio.Timeout] = set()
        self._ending = False

    def __len__(self) -> int:
        return len(self._limits)

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Read one body inside. Raises Unavailable (shutting_down) when the Edge stops before the body is whole."""
        limit = asyncio.timeout(self._grace if self._ending else None)
        try:
            async with limit:
                self._limits.add(limit)
                try:
                    yield
                finally:
                    self._limits.discard(limit)
        except TimeoutError:
            if limit.expired():
                raise refusals.shutting_down() from None
            raise

    def end(self) -> None:
        """The Edge stops: what is not whole within the grace is refused."""
        self._ending = True
        until = asyncio.get_running_loop().time() + self._grace
        for limit in self._limits:
            limit.reschedule(until)
