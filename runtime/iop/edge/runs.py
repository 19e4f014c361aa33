"""One run on a node's link, as the relay sees it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from iop.link.flow import GRANT_AT, INITIAL_CREDIT
from iop.link.messages import Cancel, End, Head, Run
from iop.transport.link import LinkConnection, LinkLost
from iop.transport.tasks import TaskSet

_log = logging.getLogger(__name__)

OnEnd = Callable[[End], None]
#: takes bytes of an answer: True when they are taken, False when their reader is behind and they must be kept
Into = Callable[[bytes], bool]

#: unread bytes of a run from which its node may have no credit left: what is drained comes back as credit in grants
HELD_UP_AT = INITIAL_CREDIT - GRANT_AT


def _told(_end: End) -> None:
    """Stand in for an owner who has been told."""


class Listener(Protocol):
    """Who wants to know whether anything is heard of a run."""

    def heard(self) -> None:
        """The engine's status line, or bytes of its answer, came."""

    def held_up(self) -> None:
        """Nothing more may come, because what came is not read."""

    def resumed(self) -> None:
        """It is read again."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a node shall do; fields as in `iop.link.messages.Run`. `body` is the whole body the engine shall get."""

    request_id: str
    adapter: str
    operation: Literal["chat.completions", "responses"]
    stream: bool
    body: bytes
    target: str | None = None
    provider_id: str | None = None
    model_group_key: str | None = None
    provider_pool: bool = True
    headers: tuple[tuple[str, str], ...] = ()
    timeout: float | None = None

    def message(self, run: int, epoch: int) -> Run:
        """The `run` message of this work."""
        return Run(
            run=run,
            epoch=epoch,
            request_id=self.request_id,
            adapter=self.adapter,
            operation=self.operation,
            stream=self.stream,
            target=self.target,
            provider_id=self.provider_id,
            model_group_key=self.model_group_key,
            provider_pool=self.provider_pool,
            headers=self.headers,
            timeout=self.timeout,
        )


class LinkRun:
    """Work under way on a node. One reader: `head()` once, then `read()` until None, or `pour()` once and `done()`.

    `end` is set once the work has really ended, or the link is lost; bytes that came before it can still be read.
    """

    __slots__ = (
        "_cancelled",
        "_conn",
        "_error",
        "_head",
        "_held_up",
        "_into",
        "_listener",
        "_on_end",
        "_sending",
        "_unread",
        "_waiter",
        "end",
        "epoch",
        "node_id",
        "run",
    )

    def __init__(self, conn: LinkConnection, node_id: str, message: Run, on_end: OnEnd) -> None:
        self.run = message.run
        self.node_id = node_id
        self.epoch = message.epoch
        self.end: End | None = None
        self._conn = conn
        self._on_end = on_end
        self._head: Head | None = None
        self._unread: bytes | bytearray = b""
        self._waiter: asyncio.Future[None] | None = None
        self._into: Into | None = None
        self._error: Exception | None = None
        self._listener: Listener | None = None
        self._held_up = False
        self._cancelled: Literal["client", "limit"] | None = None
        self._sending: asyncio.Task[None] | None = None

    @property
    def head_seen(self) -> bool:
        """True once the engine's status line is here."""
        return self._head is not None

    def listen(self, listener: Listener) -> None:
        """Tell `listener` from now on what is heard of the run."""
        self._listener = listener

    async def head(self) -> Head | End:
        """Wait for the engine's status line, or for the end when none comes."""
        while self._head is None and self.end is None:
            await self._wait()
        if self._head is not None:
            return self._head
        assert self.end is not None
        return self.end

    def take(self) -> bytes:
        """Return the bytes of the answer's body that are there, without waiting; empty when there are none.

        Once `end` is set nothing comes after them. Taking them is what lets the node send more.
        """
        data, self._unread = bytes(self._unread), b""
        if data:
            self._conn.drained(self.run, len(data))
            self._read_again()
        return data

    async def read(self) -> bytes | None:
        """Wait for the next bytes of the answer's body; None once the run has ended and all was read.

        Taking them is what lets the node send more.
        """
        while not self._unread:
            if self.end is not None:
                return None
            await self._wait()
        return self.take()

    def pour(self, into: Into) -> None:
        """Hand the body to `into`: now what is there, then each piece in the very turn in which it comes.

        `into` must not wait. True takes the bytes and lets the node send more. False leaves them here, and all that
        come after them: they are offered again, in one piece, at the next call of `pour`. So a reader that is behind
        holds its own run only, up to one credit window. An error of `into` ends the pouring: it is raised here, or
        reported to the loop and raised by `done`; the link and its other runs go on.
        """
        self._into = into
        data, self._unread = bytes(self._unread), b""
        if data and not self._taken(data):
            self._unread = data
            return
        self._read_again()
        self._wake()

    async def done(self) -> End:
        """Wait until the work has ended and `into` has taken all that came; returns how it ended."""
        while self._error is None:
            if self.end is not None and not self._unread:
                self._into = None
                return self.end
            await self._wait()
        raise self._error

    def cancel(self, why: Literal["client", "limit"]) -> None:
        """Ask the node to stop; `end` tells when it has. What still comes is thrown away.

        A repeat does nothing; `limit` after `client` is passed on, because it stops what `client` may let finish.
        """
        if self.end is not None or self._cancelled in {why, "limit"}:
            return
        self._cancelled, self._into = why, None
        if self._sending is not None:
            self._sending.cancel()
        waste, self._unread = len(self._unread), b""
        self._conn.send(Cancel(run=self.run, why=why))
        self._conn.drained(self.run, waste)

    # for the node's link only

    def begin(self, message: Run, body: bytes, tasks: TaskSet) -> None:
        """Send the work and as much of its body as can go; a task of `tasks` sends the rest."""
        self._conn.send(message)
        rest = self._conn.offer_body(self.run, body, end=True)
        if rest is not None:
            self._sending = tasks.start(self._send(bytes(rest)), name=f"body of run {self.run} to {self.node_id}")

    def took_head(self, head: Head) -> None:
        """The node passed the engine's status line on; a second one is ignored."""
        if self._head is None:
            self._head = head
            self._wake()
            if self._listener is not None:
                self._listener.heard()

    def took_body(self, data: bytes) -> None:
        """The node passed bytes of the answer on."""
        if self._listener is not None:
            self._listener.heard()
        if self._cancelled is not None:
            self._conn.drained(self.run, len(data))
        elif self._unread or self._into is None or not self._taken(data):
            self._keep(data)

    def ended(self, end: End) -> None:
        """The work has ended: tell the reader and, exactly once, the owner."""
        if self.end is not None:
            return
        self.end = end
        if self._sending is not None:
            self._sending.cancel()
        self._wake()
        on_end, self._on_end = self._on_end, _told
        try:
            on_end(end)
        finally:
            self._listener = None  # who listens holds this run, too: what is over shall not wait for the collector

    # internals

    def _taken(self, data: bytes) -> bool:
        """Offer bytes that are not kept here; False when they must be."""
        assert self._into is not None
        gone = True
        try:
            # whoever cancels the run in there wants no more of it
            gone = self._into(data) or self._cancelled is not None
        except Exception as error:
            self._into, self._error = None, error
            self._wake()
            raise
        finally:
            if gone:
                self._conn.drained(self.run, len(data))
        return gone

    def _keep(self, data: bytes) -> None:
        if not self._unread:
            self._unread = data
        elif isinstance(self._unread, bytearray):
            self._unread += data
        else:
            self._unread = bytearray(self._unread) + data
        if self._into is None:
            self._wake()
        if not self._held_up and len(self._unread) > HELD_UP_AT and self._listener is not None:
            self._held_up = True
            self._listener.held_up()

    async def _send(self, rest: bytes) -> None:
        try:
            await self._conn.send_body(self.run, rest, end=True)
        except LinkLost:
            # the run's end tells its owner; here is nothing left to do
            _log.debug("run %d on %s ended before its body was sent", self.run, self.node_id)

    def _read_again(self) -> None:
        if self._held_up and self._listener is not None:
            self._held_up = False
            self._listener.resumed()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        """One future, and only while somebody waits: what comes meanwhile costs nothing."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
