"""One run on the node, and the sink that carries its answer to the link."""

import asyncio
import time
from collections.abc import Sequence
from typing import Literal, Protocol

from iop.adapters.contract import RunEnd
from iop.link.messages import Head, Message, Run
from iop.node.rack import Mounted

Facts = dict[str, str | int | bool | None]
OnDisconnect = Literal["cancel", "cancel_streams", "finish"]


class Connection(Protocol):
    """What the node needs of a link."""

    def send(self, message: Message) -> None:
        """Send a control message."""

    def offer_body(self, run: int, data: bytes, *, end: bool = False) -> memoryview | None:
        """Send what can go at once; returns the rest, None when all went. Raises ConnectionError as `send_body`."""

    async def send_body(self, run: int, data: bytes, *, end: bool = False) -> None:
        """Send bytes of a run's answer within its credit. Raises ConnectionError when link or run is gone."""

    def drained(self, run: int, n: int) -> None:
        """Grant credit: `n` bytes of the run's body were taken."""

    def forget(self, run: int) -> None:
        """The run is over on this link; whoever waits in `send_body` for it is released."""


class Work:
    """A run from its first frame to its end. `connection` is None once its link is lost."""

    def __init__(self, run: Run, connection: Connection, mounted: Mounted, on_disconnect: OnDisconnect) -> None:
        self.run = run
        self.connection: Connection | None = connection
        self.mounted = mounted
        self.on_disconnect = on_disconnect
        self.body = bytearray()
        self.task: asyncio.Task[RunEnd] | None = None
        self.head_sent = False
        self.discarding = False
        self.cut: RunEnd | None = None
        #: its number in a later hello, None while its own link lives
        self.adopted: int | None = None
        self.bytes_out = 0
        self._began = time.monotonic()

    @property
    def gated(self) -> str | None:
        """The provider whose slot it holds; a direct run holds none, whatever else it names."""
        return self.run.provider_id if self.run.provider_pool else None

    @property
    def outlives_client(self) -> bool:
        """True when on_disconnect lets this run go on to its end."""
        if self.on_disconnect == "finish":
            return True
        return self.on_disconnect == "cancel_streams" and not self.run.stream

    def facts(self, end: RunEnd) -> Facts:
        """Return what the log tells of its end."""
        took = int((time.monotonic() - self._began) * 1000)
        return facts(self.run, end.outcome.value, end) | {"total_ms": took, "bytes_out": self.bytes_out}

    def discard(self) -> None:
        """Nobody reads the answer any more: drop what comes, and release a sink that waits for credit."""
        self.discarding = True
        if self.connection is not None:
            self.connection.forget(self.run.run)


def facts(run: Run, outcome: str, end: RunEnd) -> Facts:
    """Return whose a run was and what became of it, as fields of a log line: nothing of its contents."""
    return {
        "request_id": run.request_id,
        "model": run.model_group_key,
        "stream": run.stream,
        "provider_id": run.provider_id if run.provider_pool else None,
        "adapter": run.adapter,
        "target": run.target,
        "outcome": outcome,
        "reason": end.failure,
    }


class LinkSink:
    """Passes an answer on as `head` and body frames; drops it when nobody reads it."""

    def __init__(self, work: Work) -> None:
        self._work = work

    async def head(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Send the engine's status line and headers."""
        work = self._work
        if work.discarding or work.connection is None:
            return
        work.head_sent = True
        work.connection.send(Head(run=work.run.run, status=status, headers=tuple(headers)))

    def offer(self, data: bytes) -> memoryview | None:
        """Send entity bytes as far as there is credit; returns the rest."""
        work = self._work
        if work.discarding or work.connection is None:
            return None
        try:
            rest = work.connection.offer_body(work.run.run, data)
        except ConnectionError:
            work.discarding = True
            return None
        work.bytes_out += len(data) - (len(rest) if rest is not None else 0)
        return rest

    async def body(self, data: bytes) -> None:
        """Send entity bytes; waits for credit."""
        work = self._work
        if work.discarding or work.connection is None:
            return
        work.bytes_out += len(data)
        try:
            await work.connection.send_body(work.run.run, data)
        except ConnectionError:
            work.discarding = True
