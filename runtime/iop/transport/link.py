"""One connection of the link: a sans-I/O session put on asyncio.

What comes in is handled in a callback of its own (`_pump`), never inside `data_received`: an error raised by one
handler reaches the event loop's exception handler and the pump goes on with the next event, so that a fault in one
run cannot end the connection that all runs share.
"""

import asyncio
import logging
from typing import Protocol, cast

from iop.link.errors import WireError
from iop.link.frames import BodyFrame
from iop.link.messages import Cancel, Credit, End, Message, Pong
from iop.link.session import Role, Session
from iop.transport.outbox import Outbox
from iop.transport.seldom import Seldom
from iop.transport.timers import Ticker

_log = logging.getLogger(__name__)

#: seconds that a stranger has to say hello
HELLO_WITHIN = 10.0
#: seconds that a closed connection has to get its last bytes out
LINGER = 2.0
#: bytes waiting to be written from which senders of bodies wait
WRITE_HIGH = 256 * 1024


class LinkLost(ConnectionError):
    """The link, or the run on it, is over: nothing more can be sent there."""


class LinkHandler(Protocol):
    """What happens on a connection. `on_lost` comes exactly once, and nothing comes after it."""

    def on_open(self, conn: "LinkConnection") -> None:
        """The connection is made; nothing has been received."""

    def on_message(self, conn: "LinkConnection", message: Message) -> None:
        """A message came (never ping, pong or credit)."""

    def on_body(self, conn: "LinkConnection", run: int, data: bytes, end: bool) -> None:  # noqa: FBT001 - hot path
        """A piece of a run's body came; tell `conn.drained` once it is consumed."""

    def on_lost(self, conn: "LinkConnection", reason: str) -> None:
        """The connection is over. When our own `close` ends it, this is called before `close` returns."""


class LinkConnection(asyncio.Protocol):
    """One connected peer, at either end. All methods belong to the event loop's thread.

    `open_within` and `dead_after` are in seconds. `seldom` bounds the log lines about peers that break the
    rules. `peer` is the remote address as (host, port).
    """

    def __init__(
        self,
        role: Role,
        handler: LinkHandler,
        *,
        dead_after: float,
        open_within: float = HELLO_WITHIN,
        seldom: Seldom | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._handler = handler
        self._session = Session(role, dead_after=dead_after, open_within=open_within, now=self._loop.time())
        self._seldom = seldom or Seldom()
        self._transport: asyncio.Transport | None = None
        self._out: Outbox | None = None
        self._ticker: Ticker | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._pumping = False
        self._writable = True
        self._senders: dict[int, asyncio.Event] = {}
        self._ponged = asyncio.Event()
        self._gone = asyncio.Event()
        self.lost: str | None = None
        self.peer: tuple[str, int] = ("", 0)

    @property
    def connected(self) -> bool:
        """True once the socket was connected, lost or not."""
        return self._transport is not None

    def send(self, message: Message) -> None:
        """Send a control message; nothing happens when the link is lost. Raises WireError when it is too large.

        An `end` closes its run's flow control: body pieces must be sent before it.
        """
        if self.lost is None:
            self._write(self._session.send(message))
            if isinstance(message, Cancel) and self._out is not None:
                self._out.flush()  # the engine goes on meanwhile, and what follows in this turn is only tidying up
            if self._senders and isinstance(message, End):
                self._wake(message.run)

    async def send_body(self, run: int, data: bytes, *, end: bool = False) -> None:
        """Send entity bytes of a run, cut into pieces, as its credit and the connection allow.

        Raises LinkLost when the link is lost or the run is over before all was sent.
        """
        rest = self.offer_body(run, data, end=end)
        while rest is not None:
            await self._until_sendable(run)
            rest = self.offer_body(run, rest, end=end)

    def offer_body(self, run: int, data: bytes | memoryview, *, end: bool = False) -> memoryview | None:
        """Send what can go at once; returns what is left to offer again, or None when all of it went.

        Raises LinkLost when the link is lost or the run is over.
        """
        rest = data
        while rest or end:
            if self.lost is not None:
                raise LinkLost(self.lost)
            if not self._writable:
                return memoryview(rest)
            try:
                piece = self._session.send_piece(run, rest, end=end)
            except KeyError:
                raise LinkLost(f"run {run} is over") from None
            if piece is None:
                return memoryview(rest)
            frame, count = piece
            self._write(frame)
            if count == len(rest):
                break
            rest = memoryview(rest)[count:]
        return None

    def drained(self, run: int, n: int) -> None:
        """The receiver of a run's body consumed `n` bytes: its peer may send as many again."""
        if self.lost is None:
            self._write(self._session.drained(run, n))

    def forget(self, run: int) -> None:
        """The run is over at this end: late pieces of it are dropped, its senders get LinkLost. Safe to repeat."""
        self._session.flows.close(run)
        self._wake(run)

    async def probe(self, within: float) -> bool:
        """Ask the peer for a sign of life; False when the link is lost or no pong comes `within` seconds."""
        number, frame = self._session.ping()
        self._write(frame)
        # in slices: if this loop was busy meanwhile, a late slice still lets the loop read what has come
        for _ in range(8):
            try:
                async with asyncio.timeout(within / 8):
                    while not self._answered(number):
                        await self._ponged.wait()
                    break
            except TimeoutError:
                continue
        return self.lost is None and self._session.ponged >= number

    def close(self, reason: str) -> None:
        """End the link; what was sent still goes out. `on_lost` is called before this returns, if not yet."""
        # the socket first: a fault in `on_lost` must not keep it open
        if self.lost is None and self._transport is not None and self._out is not None:
            self._out.flush()
            self._transport.close()
            self._linger = self._loop.call_later(LINGER, self._transport.abort)
        self._lose(reason)

    def abort(self, reason: str) -> None:
        """End the link and drop what was not yet sent: for a peer that is dead or breaks the rules."""
        if self.lost is None and self._transport is not None:
            self._transport.abort()
        self._lose(reason)

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, too (a lost link needs some turns of the loop for that)."""
        if self.connected:
            await self._gone.wait()

    def retime(self, dead_after: float) -> None:
        """Use another `dead_after` (seconds) for this peer."""
        self._session.retime(dead_after)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the socket is connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH)
        self._out = Outbox(self._transport, lambda reason: self._loop.call_soon(self._break, reason))
        name = self._transport.get_extra_info("peername") or ("", 0)
        self.peer = (str(name[0]), int(name[1]))
        if self.lost is not None:
            self._transport.abort()
            return
        self._ticker = Ticker(lambda: self._session.tick_interval, self._tick)
        self._handler.on_open(self)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came."""
        if self.lost is None:
            self._session.feed(data)
            if not self._pumping:
                self._pumping = True
                self._loop.call_soon(self._pump)

    def pause_writing(self) -> None:
        """asyncio: the peer reads more slowly than we write."""
        self._writable = False

    def resume_writing(self) -> None:
        """asyncio: the peer caught up."""
        self._writable = True
        for event in self._senders.values():
            event.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the socket is closed."""
        if self._linger is not None:
            self._linger.cancel()
        self._gone.set()
        self._lose(f"connection lost: {exc}" if exc else "connection closed by the peer")

    # internals

    def _pump(self) -> None:
        finished = False
        assert self._out is not None
        self._out.hold()
        try:
            while self.lost is None and (event := self._session.next_event()) is not None:
                self._deliver(event)
            finished = True
            self._write(self._session.replies())
        except WireError as error:
            finished = True
            self._break(f"wrong frame: {error}")
        finally:
            if finished:
                self._pumping = False
            else:
                self._loop.call_soon(self._pump)
            self._out.flush()

    def _deliver(self, event: Message | BodyFrame) -> None:
        if isinstance(event, BodyFrame):
            self._handler.on_body(self, event.run, event.data, event.end)
        elif isinstance(event, Credit):
            self._wake(event.run, over=False)
        elif isinstance(event, Pong):
            self._ponged.set()
        else:
            if isinstance(event, End):
                self._wake(event.run)
            self._handler.on_message(self, event)

    def _tick(self) -> None:
        if self.lost is not None:
            return
        try:
            self._write(self._session.tick(self._loop.time()))
        except WireError as error:
            self._break(str(error))

    def _write(self, data: bytes) -> None:
        if data and self.lost is None and self._out is not None:
            self._out.put(data)

    def _break(self, reason: str) -> None:
        if self.lost is None:
            if self._seldom.may_tell(self.peer[0], reason):
                _log.warning("link with %s:%d closed: %s", *self.peer, reason)
            self.abort(reason)

    def _answered(self, ping: int) -> bool:
        """The wait for a pong is over, one way or the other."""
        self._ponged.clear()
        return self.lost is not None or self._session.ponged >= ping

    def _wake(self, run: int, *, over: bool = True) -> None:
        """Let the senders of a run look again; `over` when they have no more business with it."""
        event = self._senders.pop(run, None) if over else self._senders.get(run)
        if event is not None:
            event.set()

    async def _until_sendable(self, run: int) -> None:
        event = self._senders.setdefault(run, asyncio.Event())
        event.clear()
        await event.wait()

    def _lose(self, reason: str) -> None:
        """Mark the link as lost and tell everybody, once."""
        if self.lost is not None:
            return
        self.lost = reason
        if self._ticker is not None:
            self._ticker.close()
        self._ponged.set()
        while self._senders:
            self._senders.popitem()[1].set()
        self._handler.on_lost(self, reason)
