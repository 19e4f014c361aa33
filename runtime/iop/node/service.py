"""The node as a service: link, runner, probes and status port, from start to `bye`."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from iop.link.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    Cancel,
    Config,
    Hello,
    NodeRuntimeConfig,
    ProviderHealth,
    Ready,
    Run,
)
from iop.node.gate import Gate
from iop.node.probes import Probes
from iop.node.rack import AdapterFactory, Rack
from iop.node.runner import Runner
from iop.node.status import StatusServer, StopToken
from iop.node.target_watch import TargetWatch
from iop.node.work import Connection
from iop.transport.tasks import TaskSet

STOP_DETAIL = "the node is stopping"
CUT_WITHIN = 5.0  # seconds that cut work gets to really end (an agent's grace is shorter)
HURRY_AFTER = 1.0  # seconds at a stop until what still ends is told to hurry (an agent's grace is skipped)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this node process is. `instance_id` is new for each process."""

    node_id: str
    instance_id: str
    version: str
    release_id: str
    platform: str


class Redialer(Protocol):
    """Keeps one link to the Edge, again and again, and calls the service as its handler.

    `state` is idle, connecting, connected, waiting, turned_away:<code> or stopped.
    """

    state: str

    async def run_forever(self) -> None:
        """Dial, serve the link, redial, until stopped."""

    async def stop(self) -> None:
        """Close the link and dial no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """What wiring chooses for a node. `dialer` makes the redialer for a hello maker and a handler.

    `remember` is told the status port's address and each config that comes in force.
    """

    identity: Identity
    factory: AdapterFactory
    dialer: Callable[[Callable[[], Hello], "NodeService"], Redialer]
    edge_address: str
    read_token: Callable[[], str | None]
    status_listen: tuple[str, int]
    make_stop_token: Callable[[], StopToken | None]
    request_stop: Callable[[], object]
    remember: Callable[[str, NodeRuntimeConfig], object] = lambda _status, _runtime: None


class NodeService:
    """Runs a node. The dialer calls the `on_…` methods, all of them synchronous."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        self._tasks = TaskSet()
        self._gate = Gate()
        self._rack = Rack(parts.factory, self._tasks)
        self._runner = Runner(self._rack, self._gate, self._tasks)
        self._probes = Probes(self._rack, self._tasks, self._tell)
        self._targets = TargetWatch(self._rack, self._tasks, self._send_ready)
        self._status = StatusServer(self._picture, parts.request_stop)
        self._dialer = parts.dialer(self.hello, self)
        self._token: str | None = None
        self._address = ""
        self._link: Connection | None = None
        self._config: Config | None = None
        self._runtime = NodeRuntimeConfig(node_id=parts.identity.node_id)
        self._started_at = _now()
        self._since = time.monotonic()
        self._last_loss: str | None = None
        self._draining = False

    async def start(self) -> str:
        """Open the status port and begin to dial; the Edge need not be there. Raises PortBusy, OSError, ValueError."""
        self._token = self._parts.read_token()
        self._address = address = await self._status.start(*self._parts.status_listen)
        self._status.token = self._parts.make_stop_token()  # not before: a node that cannot start must not replace it
        self._tasks.start(self._dialer.run_forever(), name="dialer")
        return f"ready node={self._parts.identity.node_id} status={address}"

    async def drain(self) -> None:
        """Refuse new runs; finish what runs or cut it at `drain_timeout`. The dialer says `bye` when it is stopped.

        The Edge is told first, so that it hands out no more: by `ready`, and by probes for an Edge of an older release.
        """
        self._draining = True
        self._runner.begin_drain()
        self._probes.stop()
        self._targets.stop()
        self._send_ready()
        for provider in self._runtime.providers:
            self._tell(ProviderHealth(provider_id=provider.id, up=False, reason=STOP_DETAIL))
        if not await self._idle_within(self._runtime.drain_timeout):
            _log.warning("drain_timeout is over: cutting %d runs", self._runner.running)
            self._runner.cut_all(STOP_DETAIL)
            await self._idle_within(CUT_WITHIN)

    async def stop(self) -> None:
        """Free everything now: work is cut, link and status port are closed."""
        self._probes.stop()
        self._targets.stop()
        self._runner.begin_drain()
        self._runner.cut_all(STOP_DETAIL)
        await self._idle_within(HURRY_AFTER)
        await self._dialer.stop()
        await self._status.close()
        await self._tasks.close()
        await self._rack.close()
        await self._tasks.close()
        if self._status.token is not None:
            self._status.token.remove()

    def hello(self) -> Hello:
        """Make the first frame of a link. A token file that cannot be read now leaves the last token in use."""
        identity = self._parts.identity
        return Hello(
            protocol=PROTOCOL,
            node_id=identity.node_id,
            instance_id=identity.instance_id,
            token=self._read_token(),
            version=identity.version,
            release_id=identity.release_id,
            platform=identity.platform,
            running=self._runner.reported(),
            oldest_protocol=OLDEST_PROTOCOL,
        )

    def on_config(self, conn: Connection, config: Config) -> None:
        """Put a pushed config in force and acknowledge it."""
        first = self._link is not conn
        self._probes.stop()
        self._rack.apply(config.runtime)
        self._runner.configure(config.runtime)
        self._runtime, self._config = config.runtime, config
        if first:
            self._link, self._since = conn, time.monotonic()
            _log.info("connected to the Edge at %s, epoch %d", self._parts.edge_address, config.epoch)
        self._send_ready()
        self._parts.remember(self._address, config.runtime)
        self._runner.attach(conn)
        if not self._draining:
            self._probes.start(config.runtime, hello=first)
            self._targets.start()

    def on_run(self, conn: Connection, run: Run) -> None:
        """A run begins."""
        self._runner.on_run(conn, run)

    def on_body(self, conn: Connection, run: int, data: bytes, end: bool) -> None:  # noqa: FBT001 - the link's handler
        """A piece of a run's body."""
        self._runner.on_body(conn, run, data, end=end)

    def on_cancel(self, conn: Connection, cancel: Cancel) -> None:  # noqa: ARG002 - the link's handler
        """The Edge wants a run to stop."""
        self._runner.on_cancel(cancel)

    def on_going_away(self) -> None:
        """The Edge is stopping. It closes the link when its drain is over: until then it may still start runs."""
        _log.info("the Edge is stopping and closes the link when its drain is over; %d runs here", self._runner.running)

    def on_lost(self, reason: str) -> None:
        """The link is gone, or could not be set up."""
        self._last_loss = reason
        if self._link is not None:
            _log.warning("link to the Edge lost: %s; %d runs here", reason, self._runner.running)
            self._link, self._since = None, time.monotonic()
            self._probes.stop()
            self._targets.stop()
            self._runner.detach()

    def _send_ready(self) -> None:
        """Acknowledge the config in force, with what is known of its adapters now."""
        if self._link is not None and self._config is not None:
            providers = tuple(provider.id for provider in self._runtime.providers)
            ready = Ready(generation=self._config.generation, adapters=self._targets.tell(), providers=providers)
            self._link.send(msgspec.structs.replace(ready, stopping=self._draining))

    def _read_token(self) -> str | None:
        try:
            self._token = self._parts.read_token()
        except OSError as error:
            _log.warning("the token file cannot be read (%s); the token read before is used", error)
        return self._token

    def _tell(self, health: ProviderHealth) -> None:
        if self._link is not None:
            self._link.send(health)

    async def _idle_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._runner.idle()
        return self._runner.running == 0

    def _picture(self) -> dict[str, object]:
        """Return the body of GET /status. Times are ISO 8601 in UTC, durations in seconds."""
        identity, config = self._parts.identity, self._config
        return {
            "schema": 1,
            "node": {
                "id": identity.node_id,
                "alias": self._runtime.alias,
                "version": identity.version,
                "release_id": identity.release_id,
                "instance_id": identity.instance_id,
                "platform": identity.platform,
                "started_at": self._started_at,
                "state": "draining" if self._draining else "serving",
            },
            "link": {
                "edge": self._parts.edge_address,
                "connected": self._link is not None,
                "state": self._dialer.state,
                "for_s": round(time.monotonic() - self._since, 3),
                "epoch": config.epoch if config and self._link is not None else None,
                "generation": config.generation if config else None,
                "last_loss": self._last_loss,
            },
            "adapters": [msgspec.to_builtins(info) for info in self._rack.infos()],
            "unusable_adapters": dict(self._rack.failures),
            "providers": [self._provider_picture(provider.id) for provider in self._runtime.providers],
            "direct": {"in_flight": self._runner.direct_running},
            "running": self._runner.running,
            "observed_at": _now(),
        }

    def _provider_picture(self, provider_id: str) -> dict[str, object]:
        provider = next(p for p in self._runtime.providers if p.id == provider_id)
        verdict = self._probes.verdicts.get(provider_id)
        return {
            "provider_id": provider.id,
            "type": provider.type,
            "category": provider.category,
            "adapter": provider.adapter,
            "capacity": provider.capacity,
            "in_flight": self._gate.in_flight(provider_id),
            "up": verdict.up if verdict else None,
            "reason": verdict.reason if verdict else None,
        }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
