"""The node links an Edge has, and the peers it turned away."""

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from iop.edge.runs import LinkRun, OnEnd, RunSpec
from iop.link.messages import (
    LINK_LOST,
    Bye,
    Config,
    End,
    Head,
    Hello,
    Message,
    NodeRuntimeConfig,
    ProviderHealth,
    Ready,
    RunningWork,
)
from iop.link.session import MAX_RUN
from iop.transport.link import LinkConnection
from iop.transport.tasks import TaskSet

_log = logging.getLogger(__name__)

Clock = Callable[[], float]

#: entries of the list of refused peers; the oldest goes first
MAX_TURNED_AWAY = 64
#: characters of a stranger's node id that are kept and logged
MAX_SHOWN_ID = 128


class NodeDirectory(Protocol):
    """What the config says about nodes."""

    def check(self, node_id: str, token: str | None, peer_is_loopback: bool) -> str | None:  # noqa: FBT001 - a fact
        """The code to turn this node away with, or None when it is welcome."""

    def config(self, node_id: str) -> tuple[int, NodeRuntimeConfig]:
        """The config's generation and what the node shall run. Raises KeyError when the node is unknown."""


class LinkEvents(Protocol):
    """What the Edge is told about its nodes, synchronously and in order."""

    def node_connected(self, node_id: str, epoch: int, hello: Hello) -> None:
        """A node is taken in; `hello.running` is work of it that is held from now on (adopted)."""

    def node_ready(self, node_id: str, ready: Ready) -> None:
        """A config is in force on the node; runs may be started."""

    def node_lost(self, node_id: str, epoch: int, reason: str) -> None:
        """The link of that epoch is gone. Comes before the ends of its runs, once for each `node_connected`."""

    def provider_health(self, node_id: str, health: ProviderHealth) -> None:
        """A probe's result."""

    def run_ended_adopted(self, node_id: str, run: int, end: End) -> None:
        """Work that was found running at the hello has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedAwayEntry:
    """One kind of refusal of one peer. `last_at` in unix seconds; `peer` is the host."""

    node_id: str
    code: str
    peer: str
    last_at: float
    count: int


class TurnedAwayList:
    """Refusals, bounded; the same node, code and host share an entry, and only its first is worth a log line."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, str, str], TurnedAwayEntry] = OrderedDict()
        #: all refusals by code, those of entries that had to go included
        self.by_code: Counter[str] = Counter()

    def __iter__(self) -> Iterator[TurnedAwayEntry]:
        return iter(tuple(self._entries.values()))

    def add(self, node_id: str, code: str, peer: str, at: float) -> bool:
        """Count a refusal; True when it is the first of its kind."""
        self.by_code[code] += 1
        key = (node_id[:MAX_SHOWN_ID], code, peer)
        old = self._entries.pop(key, None)
        count = old.count + 1 if old else 1
        self._entries[key] = TurnedAwayEntry(node_id=key[0], code=code, peer=peer, last_at=at, count=count)
        if len(self._entries) > MAX_TURNED_AWAY:
            self._entries.popitem(last=False)
        return old is None


class NodeLink:
    """One node that was taken in, for the life of its connection.

    `since` is unix seconds; `ready` is the node's last acknowledgement, None until the first one.
    """

    def __init__(self, conn: LinkConnection, hello: Hello, *, epoch: int, since: float, events: LinkEvents) -> None:
        self.conn = conn
        self.hello = hello
        self.epoch = epoch
        self.since = since
        self.ready: Ready | None = None
        self._events = events
        self._tasks = TaskSet()
        self._runs: dict[int, LinkRun] = {}
        self._adopted: dict[int, RunningWork] = {work.run: work for work in hello.running}
        self._last_run = max(self._adopted, default=0)

    @property
    def node_id(self) -> str:
        """The node's id."""
        return self.hello.node_id

    @property
    def peer(self) -> str:
        """The node's address, host:port."""
        return "{}:{}".format(*self.conn.peer)

    @property
    def running(self) -> int:
        """Runs under way that this Edge started on this link."""
        return len(self._runs)

    def start(self, spec: RunSpec, on_end: OnEnd) -> LinkRun:
        """Start a run. Raises WireError when `spec` does not fit into a message."""
        message = spec.message(self._next_run(), self.epoch)
        run = LinkRun(self.conn, self.node_id, message, on_end)
        run.begin(message, spec.body, self._tasks)
        self._runs[run.run] = run
        return run

    def configure(self, generation: int, dead_after: float, runtime: NodeRuntimeConfig) -> None:
        """Send the node its config."""
        self.conn.send(Config(epoch=self.epoch, generation=generation, dead_after=dead_after, runtime=runtime))

    def on_message(self, message: Message) -> None:
        """A message came from the node."""
        match message:
            case Head(run=number):
                if run := self._runs.get(number):
                    run.took_head(message)
            case End(run=number):
                self._ended(number, message)
            case Ready():
                self.ready = message
                self._events.node_ready(self.node_id, message)
            case ProviderHealth():
                self._events.provider_health(self.node_id, message)
            case Bye():
                self.conn.close("the node said bye")
            case _:
                _log.debug("node %s: unexpected %s", self.node_id, type(message).__name__)

    def on_body(self, number: int, data: bytes) -> None:
        """Bytes of an answer came."""
        if run := self._runs.get(number):
            run.took_body(data)

    def lost(self, reason: str) -> None:
        """The link is gone: tell the Edge, then each run's owner; one owner's failure does not keep others waiting."""
        runs, self._runs = self._runs, {}
        with ExitStack() as stack:
            for run in reversed(runs.values()):
                stack.callback(run.ended, End(run=run.run, outcome="failed", failure=LINK_LOST, detail=reason))
            self._events.node_lost(self.node_id, self.epoch, reason)

    async def close(self) -> None:
        """Wait until nothing of this link is left."""
        await self._tasks.close()

    def _ended(self, number: int, end: End) -> None:
        if run := self._runs.pop(number, None):
            run.ended(end)
        elif self._adopted.pop(number, None):
            self._events.run_ended_adopted(self.node_id, number, end)
        else:
            _log.debug("node %s: an end of run %d, which is over", self.node_id, number)

    def _next_run(self) -> int:
        while True:
            self._last_run = self._last_run % MAX_RUN + 1
            if self._last_run not in self._runs and self._last_run not in self._adopted:
                return self._last_run
