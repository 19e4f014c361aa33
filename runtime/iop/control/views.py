"""What the Control Plane knows of each Edge: its last status, and when it came. A view, never the source of truth."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from iop.admin.wire import AdminRefused, AdminUnreachable
from iop.domain.errors import NotFound, UpstreamError
from iop.domain.law import violations_of_status
from iop.domain.times import iso_utc

#: seconds between two looks at an Edge
POLL_EVERY_S = 1.0


class Reader(Protocol):
    """How one Edge is read. Raises AdminUnreachable and AdminRefused."""

    async def status(self) -> dict[str, Any]:
        """Return the Edge's status JSON."""

    def events(self, last_event_id: str | None) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open the Edge's event stream."""

    async def close(self) -> None:
        """Free the connections."""


@dataclass(frozen=True, slots=True)
class Clock:
    """`monotonic` measures ages, `wall` (seconds since 1970) dates them."""

    monotonic: Callable[[], float]
    wall: Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Seen:
    status: Mapping[str, Any]
    at: float
    at_wall: float


class EdgeView:
    """One Edge as last seen. Each look replaces what was seen only if it was begun later than the one kept."""

    def __init__(self, edge_id: str, reader: Reader, clock: Clock) -> None:
        self.id = edge_id
        self.reader = reader
        self._clock = clock
        self._seen: _Seen | None = None
        self._trouble: str | None = "it has not been asked yet"

    def summary(self) -> dict[str, Any]:
        """Return `{id, reachable, age_s}`; `age_s` is null when no status ever came."""
        return {"id": self.id, "reachable": self._trouble is None, "age_s": self._age()}

    async def look(self) -> None:
        """Ask the Edge now; remember its answer, or why there is none."""
        begun, begun_wall = self._clock.monotonic(), self._clock.wall()
        try:
            status = await self.reader.status()
        except (AdminUnreachable, AdminRefused) as error:
            self._trouble = str(error)
            return
        found = status.get("edge", {}).get("id") if isinstance(status.get("edge"), dict) else None
        if found != self.id:
            self._trouble = f"another Edge answers at its address: {found!r}"
            return
        self._trouble = None
        if self._seen is None or begun >= self._seen.at:
            self._seen = _Seen(status, begun, begun_wall)

    async def status(self) -> dict[str, Any]:
        """Ask now; return the status with `control`, or the last one marked stale.

        `control.violations` says in words where its counters break the conservation law; empty = it holds.
        Raises UpstreamError when the Edge does not answer and never did.
        """
        await self.look()
        seen = self._seen
        if seen is None:
            raise UpstreamError(f"Edge {self.id} was never reached: {self._trouble}.")
        control = {
            "fetched_at": iso_utc(seen.at_wall),
            "age_s": self._age(),
            "stale": self._trouble is not None,
            "trouble": self._trouble,
            "violations": violations_of_status(seen.status),
        }
        return {**seen.status, "control": control}

    async def poll(self) -> None:
        """Look at the Edge once a second, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_EVERY_S)

    def _age(self) -> float | None:
        return None if self._seen is None else round(max(0.0, self._clock.monotonic() - self._seen.at), 3)


class Views:
    """All Edges of the config, by id."""

    def __init__(self, views: Iterable[EdgeView]) -> None:
        self._views = {view.id: view for view in views}

    def all(self) -> tuple[EdgeView, ...]:
        """Return the views in the order of the config."""
        return tuple(self._views.values())

    def get(self, edge_id: str) -> EdgeView:
        """Return one view. Raises NotFound with the known ids."""
        view = self._views.get(edge_id)
        if view is None:
            known = ", ".join(self._views) or "none"
            raise NotFound(f"No Edge '{edge_id}' here; known: {known}. GET /edges lists them.", code="not_found")
        return view

    async def close(self) -> None:
        """Close all readers."""
        for view in self.all():
            await view.reader.close()
