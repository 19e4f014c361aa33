"""When the next provider becomes suspect, without looking at all of them at each change.

Each provider has at most one note, which is never later than its real time: what puts that off (a byte, an end, a free
slot) leaves the note alone, and it is put right when its turn comes. Only what may bring the time forward is told here.
"""

import heapq
from collections.abc import Callable

from iop.domain.fleet import Provider


class Alarms:
    """`due` tells when a provider becomes suspect as things are (seconds), None for never."""

    def __init__(self, due: Callable[[Provider], float | None]) -> None:
        self._due = due
        self._notes: list[tuple[float, int, Provider]] = []
        self._noted: dict[Provider, float] = {}
        self._serial = 0

    def look(self, provider: Provider) -> None:
        """Something of this provider changed that may bring its time forward."""
        due = self._due(provider)
        if due is not None:
            noted = self._noted.get(provider)
            if noted is None or due < noted:
                self._note(provider, due)

    def next(self) -> tuple[float, Provider] | None:
        """Tell who becomes suspect next, and when."""
        while self._notes:
            noted, _, provider = self._notes[0]
            due = self._due(provider) if self._noted.get(provider) == noted else None
            if due == noted:
                return due, provider
            heapq.heappop(self._notes)
            if self._noted.get(provider) == noted:
                del self._noted[provider]
                if due is not None:
                    self._note(provider, due)
        return None

    def _note(self, provider: Provider, due: float) -> None:
        self._noted[provider] = due
        self._serial += 1
        heapq.heappush(self._notes, (due, self._serial, provider))
