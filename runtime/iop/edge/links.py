"""The Edge's end of all node links: who may connect, who owns a node id, and the way to start work on a node."""

import asyncio
import itertools
import logging
import socket
import time
from collections.abc import Iterable, Mapping

from iop.edge.registry import (
    MAX_SHOWN_ID,
    Clock,
    LinkEvents,
    NodeDirectory,
    NodeLink,
    TurnedAwayEntry,
    TurnedAwayList,
)
from iop.edge.runs import LinkRun, OnEnd, RunSpec
from iop.link.messages import OLDEST_PROTOCOL, PROTOCOL, GoingAway, Hello, Message, TurnedAway
from iop.transport.callers import is_loopback
from iop.transport.link import LinkConnection
from iop.transport.seldom import Seldom
from iop.transport.tasks import TaskSet
from iop.transport.tls import ServerTls
from iop.transport.tls_server import BACKLOG, TlsServer, serve_tls

__all__ = ["LinkEvents", "LinkRun", "Links", "NodeDirectory", "NodeLink", "NodeOffline", "RunSpec"]

_log = logging.getLogger(__name__)

#: connections that have not said hello yet; for each one more the oldest is closed, as a node says hello at once
MAX_STRANGERS = 256
#: seconds that the owner of a node id has to answer, at most, when a newcomer claims the id
PROBE_WITHIN = 5.0

_MESSAGES = {
    "bad_token": "the token is wrong or missing",
    "unknown_node": "this Edge has no node of that id",
    "protocol_mismatch": "this Edge speaks protocol {ours}, the node {theirs}",
    "duplicate_node": "the id is in use by instance {owner} at {peer}, which answers",
}


class NodeOffline(Exception):
    """The node has no link that is ready for work."""


class Links:
    """Sole owner of the node connections. `dead_after` in seconds; `wall` gives unix seconds."""

    def __init__(
        self, *, directory: NodeDirectory, events: LinkEvents, dead_after: float, wall: Clock = time.time
    ) -> None:
        self._directory = directory
        self._events = events
        self._dead_after = dead_after
        self._wall = wall
        self._epochs = itertools.count(1)
        self._server: asyncio.Server | TlsServer | None = None
        self._strangers: dict[LinkConnection, None] = {}
        self._claims: dict[LinkConnection, Hello] = {}
        self._nodes: dict[str, NodeLink] = {}
        self._by_conn: dict[LinkConnection, NodeLink] = {}
        self._open: set[LinkConnection] = set()
        self._refused = TurnedAwayList()
        self._seldom = Seldom()
        self._coming = Seldom()
        self._acknowledged = asyncio.Event()
        self._claiming = TaskSet()
        self._burying = TaskSet()
        self._going_away = False
        self._closing = False

    async def listen(
        self, host: str, port: int, tls: ServerTls | None = None, sock: socket.socket | None = None
    ) -> tuple[str, int]:
        """Accept nodes; returns the address in use (port 0 = any free one). Raises OSError when it is taken.

        `sock` listens already and is used instead.
        """
        loop = asyncio.get_running_loop()
        if tls is not None:
            self._server = await serve_tls(self._stranger, host, port, tls, sock)
        elif sock is not None:
            self._server = await loop.create_server(self._stranger, sock=sock, backlog=BACKLOG)
        else:
            self._server = await loop.create_server(self._stranger, host, port, backlog=BACKLOG)
        name = self._server.sockets[0].getsockname()
        return str(name[0]), int(name[1])

    def start(self, node_id: str, spec: RunSpec, on_end: OnEnd) -> LinkRun:
        """Start work on a node. `on_end` is called exactly once, synchronously, and never before this returns.

        Raises NodeOffline when the node has no ready link.
        """
        link = self._nodes.get(node_id)
        if link is None or link.ready is None:
            raise NodeOffline(node_id)
        return link.start(spec, on_end)

    def node(self, node_id: str) -> NodeLink | None:
        """The node's link, or None when it has none."""
        return self._nodes.get(node_id)

    def turned_away(self) -> list[TurnedAwayEntry]:
        """Who was refused, the most recent last; bounded."""
        return list(self._refused)

    def turned_away_by_code(self) -> Mapping[str, int]:
        """How often each code was said since this Edge started; every code is there."""
        return {code: self._refused.by_code[code] for code in _MESSAGES}

    def push_config(self, node_ids: Iterable[str]) -> None:
        """Send the connected ones of these nodes their config; a node that is declared no more is turned away."""
        for node_id in node_ids:
            link = self._nodes.get(node_id)
            if link is None:
                continue
            try:
                generation, runtime = self._directory.config(node_id)
            except KeyError:
                self._turn_away(link.conn, link.hello, "unknown_node")
            else:
                link.configure(generation, self._dead_after, runtime)

    async def acknowledged(self, node_id: str, generation: int, timeout: float) -> bool:  # noqa: ASYNC109 - its job
        """Wait until the node has that generation (or a later one) in force; False after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while not self._has(node_id, generation):
                    await self._acknowledged.wait()
        except TimeoutError:
            return self._has(node_id, generation)
        return True

    def going_away(self) -> None:
        """Tell the nodes, once, that this Edge stops. Runs go on, and a node that lost its link is taken in again."""
        if not self._going_away:
            self._going_away = True
            for link in self._nodes.values():
                link.conn.send(GoingAway())

    async def close(self, *, going_away: bool) -> None:
        """End all links (runs still under way end as lost) and wait until the sockets are closed."""
        if going_away:
            self.going_away()
        if self._server is not None:
            self._server.close()
        self._closing = True
        await self._claiming.close()
        for conn in tuple(self._open):
            conn.close("the Edge is stopping")
        await self._burying.drained()
        if self._server is not None:
            await self._server.wait_closed()

    # LinkHandler

    def on_open(self, conn: LinkConnection) -> None:
        """A stranger connected."""
        self._open.add(conn)
        self._strangers[conn] = None
        if self._closing:
            conn.abort("the Edge is stopping")
        elif len(self._strangers) > MAX_STRANGERS:
            next(iter(self._strangers)).abort("too many connections without a hello")

    def on_message(self, conn: LinkConnection, message: Message) -> None:
        """A message came: hello from a stranger, anything else from a node that was taken in."""
        link = self._by_conn.get(conn)
        if link is not None:
            link.on_message(message)
            if link.ready is message:
                self._acknowledged.set()
                self._acknowledged = asyncio.Event()
        elif isinstance(message, Hello):
            self._hello(conn, message)
        else:
            conn.abort(f"a {type(message).__name__} from a node that is not taken in")

    def on_body(self, conn: LinkConnection, run: int, data: bytes, end: bool) -> None:  # noqa: ARG002, FBT001 - contract
        """Bytes of an answer came; the run's `end` message closes it, so the END flag is not needed here."""
        link = self._by_conn.get(conn)
        if link is not None:
            link.on_body(run, data)

    def on_lost(self, conn: LinkConnection, reason: str) -> None:
        """A connection is over. Only the link that this very connection carries is touched."""
        self._open.discard(conn)
        self._strangers.pop(conn, None)
        self._claims.pop(conn, None)
        link = self._by_conn.pop(conn, None)
        self._burying.start(self._bury(conn, link), name="closed connection")
        if link is None:
            return
        if self._nodes.get(link.node_id) is link:
            del self._nodes[link.node_id]
        if self._coming.may_tell(link.node_id, f"{link.epoch} lost"):
            _log.info("node %s: link %d lost: %s", link.node_id, link.epoch, reason)
        link.lost(reason)

    # taking nodes in

    def _stranger(self) -> LinkConnection:
        return LinkConnection("edge", self, dead_after=self._dead_after, seldom=self._seldom)

    def _hello(self, conn: LinkConnection, hello: Hello) -> None:
        self._strangers.pop(conn, None)
        code = self._directory.check(hello.node_id, hello.token, is_loopback(conn.peer[0]))
        if code is None and hello.common_protocol() is None:
            code = "protocol_mismatch"
        if code is not None:
            self._turn_away(conn, hello, code)
        elif self._may_own(hello):
            self._take_in(conn, hello)
        else:
            self._claims[conn] = hello
            self._claiming.start(self._claim(conn, hello), name=f"claim of node {hello.node_id}")

    def _may_own(self, hello: Hello) -> bool:
        owner = self._nodes.get(hello.node_id)
        return owner is None or owner.hello.instance_id == hello.instance_id

    async def _claim(self, conn: LinkConnection, hello: Hello) -> None:
        """Another instance owns the id: it keeps it when it answers a probe, and loses it when it does not."""
        while conn in self._claims and not self._may_own(hello):
            owner = self._nodes[hello.node_id]
            answers = await owner.conn.probe(min(PROBE_WITHIN, self._dead_after / 2))
            if self._nodes.get(hello.node_id) is not owner:
                continue
            if conn not in self._claims:
                return
            if answers:
                self._turn_away(conn, hello, "duplicate_node", owner)
                return
            break
        if self._claims.pop(conn, None) is not None:
            self._take_in(conn, hello)

    def _take_in(self, conn: LinkConnection, hello: Hello) -> None:
        old = self._nodes.get(hello.node_id)
        if old is not None:
            old.conn.abort(f"superseded by a new connection from {conn.peer[0]}:{conn.peer[1]}")
        try:
            generation, runtime = self._directory.config(hello.node_id)
        except KeyError:
            self._turn_away(conn, hello, "unknown_node")
            return
        link = NodeLink(conn, hello, epoch=next(self._epochs), since=self._wall(), events=self._events)
        self._nodes[hello.node_id] = self._by_conn[conn] = link
        # one that comes and goes all the time fills no log; each event is in the feed
        if self._coming.may_tell(link.node_id, f"{link.epoch}"):
            _log.info(
                "node %s: link %d from %s (version %s)", link.node_id, link.epoch, link.peer, hello.version or "?"
            )
        link.configure(generation, self._dead_after, runtime)
        if self._going_away:
            conn.send(GoingAway())
        self._events.node_connected(link.node_id, link.epoch, hello)

    def _turn_away(self, conn: LinkConnection, hello: Hello, code: str, owner: NodeLink | None = None) -> None:
        facts = {
            "ours": _span(OLDEST_PROTOCOL, PROTOCOL),
            "theirs": _span(hello.oldest_protocol, hello.protocol),
        }
        if owner is not None:
            facts |= {"owner": owner.hello.instance_id, "peer": owner.peer}
        message = _MESSAGES[code].format(**facts)
        who = hello.node_id[:MAX_SHOWN_ID]
        is_new = self._refused.add(hello.node_id, code, conn.peer[0], self._wall())
        if is_new and self._seldom.may_tell(conn.peer[0], f"{code} {who}"):
            _log.warning("node %r from %s turned away (%s): %s", who, conn.peer[0], code, message)
        conn.send(TurnedAway(code=code, message=message))
        conn.close(f"turned away: {code}")

    def _has(self, node_id: str, generation: int) -> bool:
        link = self._nodes.get(node_id)
        return link is not None and link.ready is not None and link.ready.generation >= generation

    async def _bury(self, conn: LinkConnection, link: NodeLink | None) -> None:
        if link is not None:
            await link.close()
        await conn.wait_closed()


def _span(oldest: int | None, newest: int) -> str:
    return f"{newest}" if oldest in {None, newest} else f"{oldest} to {newest}"
