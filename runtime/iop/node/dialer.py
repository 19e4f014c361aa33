"""The node's end of the link: dial the Edge, say hello, and dial again when the link is lost."""

import asyncio
import logging
import random
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from iop.link.backoff import Backoff
from iop.link.messages import Bye, Cancel, Config, GoingAway, Hello, Message, Run, TurnedAway
from iop.transport.link import LinkConnection
from iop.transport.seldom import Seldom
from iop.transport.tls import ClientTls, Untrusted, dial

_log = logging.getLogger(__name__)

#: seconds for the TCP connection to come about
CONNECT_WITHIN = 10.0
#: seconds until the Edge must have answered the hello; it may probe another owner of the id first
ANSWER_WITHIN = 20.0
#: seconds of silence that mean a dead Edge, until its `config` says how many
DEAD_AFTER = 15.0

UNANSWERED = ", and the hello was not answered: it may want TLS (edge.ca_file)"


class DialerState(StrEnum):
    """What a dialer is doing; `turned_away` is shown with its code: `turned_away:<code>`."""

    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    WAITING = "waiting"
    TURNED_AWAY = "turned_away"
    STOPPED = "stopped"


class DialerHandler(Protocol):
    """What the node does with its link. Calls come in order; `on_lost` once for each link that had an `on_config`."""

    def on_config(self, conn: LinkConnection, config: Config) -> None:
        """What to run; to be acknowledged by `conn.send(Ready(…))`. Comes first, and again after a refresh."""

    def on_run(self, conn: LinkConnection, run: Run) -> None:
        """Work to do; its body follows."""

    def on_body(self, conn: LinkConnection, run: int, data: bytes, end: bool) -> None:  # noqa: FBT001 - hot path
        """A piece of a run's body; `conn.drained` lets more come."""

    def on_cancel(self, conn: LinkConnection, cancel: Cancel) -> None:
        """Stop a run, as its `why` and the provider's policy say."""

    def on_going_away(self) -> None:
        """The Edge is stopping and closes the link when its drain is over; until then it may still start runs."""

    def on_lost(self, reason: str) -> None:
        """The link is gone."""


class Dialer:
    """Keeps one link to the Edge at `address` (host, port), over TLS if given. `hello` and `tls` are asked before each
    attempt.

    `state` is a DialerState (turned_away with its code); `connection` is set while the Edge
    has us taken in. `jitter` draws a random number in [0, 1).
    """

    def __init__(
        self,
        *,
        address: tuple[str, int],
        hello: Callable[[], Hello],
        handler: DialerHandler,
        tls: ClientTls | None = None,
        backoff: Backoff | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._address = address
        self._hello = hello
        self._handler = handler
        self._tls = tls
        self._seldom = Seldom()
        self._backoff = backoff or Backoff()
        self._jitter = jitter
        self._conn: LinkConnection | None = None
        self._refusal: TurnedAway | None = None
        self._untrusted = False
        self._answered = False
        self._goodbye = False
        self._told: str | None = None
        self._stopping = asyncio.Event()
        self._dialling: asyncio.Timeout | None = None
        self.connection: LinkConnection | None = None
        self.state: str = DialerState.IDLE

    async def run_forever(self) -> None:
        """Keep the link up until `stop` is called or this is cancelled."""
        try:
            while not self._stopping.is_set():
                reason = await self._session()
                if not self._stopping.is_set():
                    await self._pause(reason)
        finally:
            self._leave("the node is stopping")
            self.state = DialerState.STOPPED

    async def stop(self) -> None:
        """Say bye and end the link for good; returns when the socket is closed."""
        self._stopping.set()
        conn = self._conn
        if self.connection is not None:
            self.connection.send(Bye())
        if self._dialling is not None:
            self._dialling.reschedule(asyncio.get_running_loop().time())
        self._leave("the node is stopping")
        if conn is not None:
            await conn.wait_closed()

    # LinkHandler

    def on_open(self, conn: LinkConnection) -> None:
        """The Edge's port answered: say hello."""
        conn.send(self._hello())

    def on_message(self, conn: LinkConnection, message: Message) -> None:
        """A message came from the Edge."""
        self._answered = True
        match message:
            case Config():
                self._accepted(conn)
                self._handler.on_config(conn, message)
            case TurnedAway():
                self._refusal = message
                conn.close(f"turned away: {message.code}")
            case Run():
                self._handler.on_run(conn, message)
            case Cancel():
                self._handler.on_cancel(conn, message)
            case GoingAway():
                self._goodbye = True
                self._handler.on_going_away()
            case _:
                _log.debug("unexpected %s from the Edge", type(message).__name__)

    def on_body(self, conn: LinkConnection, run: int, data: bytes, end: bool) -> None:  # noqa: FBT001 - contract
        """A piece of a run's body came."""
        self._handler.on_body(conn, run, data, end)

    def on_lost(self, conn: LinkConnection, reason: str) -> None:
        """The connection is over."""
        now = asyncio.get_running_loop().time()
        self._backoff.lost(now)
        if self._goodbye:
            self._backoff.expected_back(now)
        if self.connection is conn:
            self.connection = None
            self._handler.on_lost(reason)

    # internals

    async def _session(self) -> str:
        """One attempt, and the link that came of it, to its end; returns why it ended."""
        self.state = DialerState.CONNECTING
        self._refusal = None
        self._untrusted = self._answered = self._goodbye = False
        conn = LinkConnection("node", self, dead_after=DEAD_AFTER, open_within=ANSWER_WITHIN, seldom=self._seldom)
        self._conn = conn
        try:
            async with asyncio.timeout(CONNECT_WITHIN) as self._dialling:
                await dial(lambda: conn, *self._address, self._tls)
        except TimeoutError:
            # the timeout may have raced with success: closing it here covers both
            conn.close(f"no connection within {CONNECT_WITHIN:g} s")
        except Untrusted as error:
            self._untrusted = True
            conn.close(str(error))
        except OSError as error:
            conn.close(f"no connection: {error}")
        finally:
            self._dialling = None
        await conn.wait_closed()
        self._conn = None
        lost = conn.lost or "closed"
        if conn.connected and not self._answered and self._tls is None:
            lost += UNANSWERED
        return lost

    def _accepted(self, conn: LinkConnection) -> None:
        if self.connection is not conn:
            self.connection = conn
            self.state = DialerState.CONNECTED
            self._told = None
            self._backoff.accepted(asyncio.get_running_loop().time())
            _log.info("connected to the Edge at %s:%d", *self._address)

    async def _pause(self, reason: str) -> None:
        refusal = self._refusal
        if refusal is None and self._untrusted:
            self.state = DialerState.WAITING
            self._tell(reason, "no link to the Edge at %s:%d (%s); trying slowly", reason)
            delay = self._backoff.slow(self._jitter())
        elif refusal is None:
            self.state = DialerState.WAITING
            kind = "unanswered" if reason.endswith(UNANSWERED) else "down"
            self._tell(kind, "no link to the Edge at %s:%d (%s); dialling again", reason)
            delay = self._backoff.delay(self._jitter())
        else:
            self.state = f"{DialerState.TURNED_AWAY}:{refusal.code}"
            self._tell(
                self.state,
                "the Edge at %s:%d turned this node away: %s; trying slowly",
                f"{refusal.code}, {refusal.message}",
            )
            delay = self._backoff.slow(self._jitter())
        try:
            async with asyncio.timeout(delay):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _tell(self, what: str, text: str, detail: str) -> None:
        """One log line for each new kind of trouble, not one for each attempt."""
        if self._told != what:
            self._told = what
            _log.warning(text, *self._address, detail)

    def _leave(self, reason: str) -> None:
        if self._conn is not None:
            self._conn.close(reason)
