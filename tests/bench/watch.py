"""Looking at a running Edge without touching it: its event log, whichever process speaks, and its status."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.bench.record import Event, Life, Status

SAMPLE_S = 0.2
PATIENCE_S = 3.0  # for one status: an Edge that is frozen or gone says nothing
_AWAY = (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError)


@dataclass
class Watch:
    """Records the events and statuses of the Edge behind `admin`. `latest` is the newest status."""

    admin: str
    clock: Callable[[], float]
    tell: Callable[[Event | Life | Status], None]
    latest: dict[str, Any] = field(default_factory=dict)
    instance: str = ""
    last_seq: int = 0

    async def status(self, http: aiohttp.ClientSession) -> dict[str, Any]:
        """Ask for the status and record it. Raises what aiohttp raises, and TimeoutError."""
        async with asyncio.timeout(PATIENCE_S), http.get(f"{self.admin}/status") as answer:
            answer.raise_for_status()
            status: dict[str, Any] = json.loads(await answer.read())
        self.latest = status
        self.tell(Status(self.clock(), status))
        return status

    async def sample(self, http: aiohttp.ClientSession) -> None:
        """Status again and again, until cancelled."""
        while True:
            with contextlib.suppress(*_AWAY):
                await self.status(http)
            await asyncio.sleep(SAMPLE_S)

    async def follow(self, http: aiohttp.ClientSession) -> None:
        """Every event of every Edge process in its order, until cancelled; nothing is asked for twice."""
        while True:
            with contextlib.suppress(*_AWAY):
                before = await self._who(http)
                if before != self.instance:
                    self.instance, self.last_seq = before, 0
                    self.tell(Life(self.clock(), before))
                await self._read(http, before)
            await asyncio.sleep(0.05)

    async def _who(self, http: aiohttp.ClientSession) -> str:
        async with asyncio.timeout(PATIENCE_S), http.get(f"{self.admin}/status") as answer:
            found: str = json.loads(await answer.read())["edge"]["instance_id"]
            return found

    async def _read(self, http: aiohttp.ClientSession, instance: str) -> None:
        headers = {"Last-Event-ID": str(self.last_seq)}
        async with http.get(f"{self.admin}/events", headers=headers) as answer:
            if await self._who(http) != instance:
                return  # another one took over in between: its numbers begin anew
            async for line in answer.content:
                if line.startswith(b"data:"):
                    event = json.loads(line[5:])
                    self.last_seq = event["seq"]
                    self.tell(Event(self.clock(), instance, event))
