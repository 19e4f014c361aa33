"""The Edge as one object: the config in force, the door, the links, both routes, and what the two ports ask of them."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iop.config.load import Loaded
from iop.config.models import EdgeConfig
from iop.config.pool import pool_spec
from iop.domain.effects import Effects, Lease, Outcome
from iop.domain.snapshots import NodeState
from iop.edge.admin_routes import DrainAsk, unknown_node
from iop.edge.direct import Direct, DirectEvent
from iop.edge.directory import Directory, find_node
from iop.edge.door import Door
from iop.edge.feed import Feed
from iop.edge.links import Links, NodeLink
from iop.edge.metrics import Metrics
from iop.edge.pool import Pool
from iop.edge.refresh import RefreshAsk, Refresher, RefreshPorts, RefreshReply
from iop.edge.removals import Removals
from iop.edge.status import (
    EdgeFacts,
    LinkFacts,
    StatusFacts,
    build_status,
)
from iop.edge.tallies import Tallies
from iop.edge.uploads import Uploads
from iop.link.messages import End, Hello, ProviderHealth, Ready

#: seconds that nodes get to answer a cut before the links are closed over them
CUT_WITHIN = 3.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this process is. `instance_id` is new for each start."""

    version: str
    release_id: str
    instance_id: str


class EdgeCore:
    """Everything of the Edge but its sockets. Built inside the running loop; `token` guards state changes."""

    def __init__(self, loaded: Loaded[EdgeConfig], config: EdgeConfig, identity: Identity, token: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.started_at = time.time()
        self.identity = identity
        self.token: str | None = token
        self.shutting_down = False
        self.refusing = False
        self.feed = Feed(time.time)
        self.uploads = Uploads()
        self.tallies = Tallies(self.loop.time)
        self.door = Door(loop=self.loop, publish=self._publish)
        directory = Directory(lambda: (self.config, self.refresher.generation))
        self.links = Links(directory=directory, events=self, dead_after=config.link.dead_after)
        ports = RefreshPorts(
            self._take_over, self._is_connected, self.links.push_config, self.links.acknowledged, self._in_flight,
            self.door.begun,
        )  # fmt: skip
        self.refresher = Refresher(loaded, ports, time.time)
        self.pool = Pool(self.door, self.links, lambda: self.config)
        self.direct = Direct(self.links, lambda: self.config, self.node_state, self._publish_direct)
        self._removed_providers = Removals()
        self._removed_nodes = Removals()
        self._adopted: dict[tuple[str, int], Lease] = {}
        self._adopted_direct: set[tuple[str, int]] = set()
        self._epochs: dict[str, int] = {}
        self._lost_at: dict[str, float] = {}
        self._arrivals_until = 0.0
        self.on_drains: Callable[[], None] = lambda: None  # called after a drain lease was made or ended by someone
        self.tallies.declare(config)
        self.door.configure(pool_spec(config))
        self.metrics = Metrics(self.status, self.links.turned_away_by_code, self.tallies).handler()

    @property
    def config(self) -> EdgeConfig:
        """The config in force."""
        return self.refresher.config

    # what the links report

    def node_connected(self, node_id: str, epoch: int, hello: Hello) -> None:
        """A hello was accepted; the node takes work only once it is ready."""

    def node_ready(self, node_id: str, ready: Ready) -> None:
        """The node has its config in force. The first time in an epoch it joins the pool, with what it still runs."""
        link = self.links.node(node_id)
        if link is None:
            return
        if self._epochs.get(node_id) != link.epoch:
            self._epochs[node_id] = link.epoch
            self._joined(node_id, link)
        if ready.stopping:
            self.door.node_stopping(node_id)

    def _joined(self, node_id: str, link: NodeLink) -> None:
        running = link.hello.running
        pool_work = [(work.provider_id, work.request_id) for work in running if work.provider_id is not None]
        leases = self.door.node_connected(node_id, link.epoch, pool_work)
        for work in running:
            if work.provider_id is None:
                self._adopted_direct.add((node_id, work.run))
                self.direct.adopted(node_id)
            elif (lease := leases.get(work.request_id)) is not None:
                self._adopted[node_id, work.run] = lease

    def node_lost(self, node_id: str, epoch: int, reason: str) -> None:  # noqa: ARG002 (the links log it)
        """The link is gone; each run's owner settles it right after, adopted work ends as failed."""
        self._lost_at[node_id] = time.time()
        self._adopted = {key: lease for key, lease in self._adopted.items() if key[0] != node_id}
        for key in [key for key in self._adopted_direct if key[0] == node_id]:
            self._adopted_direct.discard(key)
            self.direct.adopted_ended(node_id, Outcome.FAILED)
        self.door.node_lost(node_id, epoch)

    def provider_health(self, node_id: str, health: ProviderHealth) -> None:
        """A probe's result; a node may speak of its own providers only."""
        node = find_node(self.config, node_id)
        if node is not None and any(provider.id == health.provider_id for provider in node.providers):
            if health.silent:
                self.door.probe_silent(health.provider_id)
            else:
                self.door.provider_health(health.provider_id, up=health.up, reason=health.reason)

    def run_ended_adopted(self, node_id: str, run: int, end: End) -> None:  # noqa: ARG002 (it has no client)
        """Work from before this link has ended on the node: it has no client, so it counts as cancelled."""
        if (lease := self._adopted.pop((node_id, run), None)) is not None:
            self.door.end(lease, Outcome.CANCELLED, "adopted")
        elif (node_id, run) in self._adopted_direct:
            self._adopted_direct.discard((node_id, run))
            self.direct.adopted_ended(node_id, Outcome.CANCELLED)

    # what the admin port asks

    def drain(self, node_id: str, ask: DrainAsk) -> None:
        """Start or renew a drain lease. Raises NotFound for an unknown node."""
        if find_node(self.config, node_id) is None:
            raise unknown_node(node_id)
        reason = " ".join(part for part in (ask.reason, f"(by {ask.by})" if ask.by else None) if part) or None
        self.door.drain(node_id, ask.lease_s, reason)
        self.on_drains()

    def undrain(self, node_id: str) -> None:
        """End the drain lease. Raises NotFound for an unknown node."""
        if find_node(self.config, node_id) is None:
            raise unknown_node(node_id)
        self.door.undrain(node_id)
        self.on_drains()

    def node_state(self, node_id: str) -> NodeState | None:
        """Return the node's state as admission sees it, None for a node it does not know."""
        return self.door.node_state(node_id)

    def status(self) -> dict[str, Any]:
        """Return the status JSON."""
        identity = self.identity
        return build_status(
            StatusFacts(
                edge=EdgeFacts(
                    id=self.config.edge.id,
                    version=identity.version,
                    release_id=identity.release_id,
                    instance_id=identity.instance_id,
                    started_at=self.started_at,
                    counting_since=self.started_at,
                ),
                config=self.config,
                config_facts=self.refresher.facts,
                pool=self.door.snapshot(),
                observed_at=time.time(),
                links={node.id: self._link_facts(node.id) for node in self.config.nodes},
                direct={node.id: self.direct.counters(node.id) for node in self.config.nodes},
                turned_away=self.links.turned_away(),
                retired=self.refresher.retired,
                last_seq=self.feed.last_seq,
                now=self.door.loop.time(),
            )
        )

    def expect_nodes(self, within: float) -> None:
        """This Edge succeeds another one: its nodes dial it in the next `within` seconds."""
        self._arrivals_until = self.loop.time() + within

    async def arrival(self, node_id: str) -> None:
        """Return when the node is there, or is not expected (any more)."""
        left = self._arrivals_until - self.loop.time()
        if left > 0 and find_node(self.config, node_id) is not None:
            await self.links.acknowledged(node_id, 0, left)

    # what a refresh changes

    async def refresh(self, ask: RefreshAsk) -> RefreshReply:
        """Plan or apply a candidate config."""
        return await self.refresher.refresh(ask)

    def _take_over(self, config: EdgeConfig) -> None:
        """Admission takes the candidate over; what was removed gets the running config's drain_timeout to finish."""
        until = self.loop.time() + self.config.drain_timeout
        self._removed_providers.note(_provider_ids(self.config), _provider_ids(config), until)
        self._removed_nodes.note([node.id for node in self.config.nodes], [node.id for node in config.nodes], until)
        self.tallies.declare(config)
        self.door.configure(pool_spec(config))
        self.loop.call_at(until, self._cut_removed, until)

    def _in_flight(self) -> dict[str, int]:
        return {provider.provider_id: provider.in_flight for provider in self.door.snapshot().providers}

    def _is_connected(self, node_id: str) -> bool:
        return self.links.node(node_id) is not None

    def _cut_removed(self, until: float) -> None:
        """The drain_timeout is over: work of removed providers is cut, removed nodes are turned away.

        What came back meanwhile is left alone, and so is what was removed later.
        """
        for provider_id in self._removed_providers.due(until):
            self.pool.cut_provider(provider_id, "removed")
        self.links.push_config(self._removed_nodes.due(until))

    # the end

    def begin_stop(self) -> None:
        """Say everywhere that this Edge stops; whoever is connected is served on."""
        self.shutting_down = True
        self.links.going_away()

    async def finish(self, until: float) -> None:
        """Take nothing new; let what runs and waits end until then (loop time); then cut it."""
        self.begin_stop()
        self.refusing = True
        self.uploads.end()
        self.door.shut_down()
        try:
            async with asyncio.timeout_at(until):
                await self.door.idle()
                await self.direct.idle()
        except TimeoutError:
            self.cut()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CUT_WITHIN):
                    await self.door.idle()
                    await self.direct.idle()

    def cut(self) -> None:
        """End every wait and stop all work now; each client is told."""
        self.door.expire_all()
        self.pool.cut_all("shutting_down")
        self.direct.cut_all("shutting_down")

    async def close(self) -> None:
        """Close the links and end the readers of events."""
        self.feed.close()
        await self.links.close(going_away=True)
        self.door.close()

    def _link_facts(self, node_id: str) -> LinkFacts:
        link = self.links.node(node_id)
        if link is None:
            return LinkFacts(since=self._lost_at.get(node_id))
        return LinkFacts(
            since=link.since,
            version=link.hello.version,
            release_id=link.hello.release_id,
            instance_id=link.hello.instance_id,
            adapters=link.ready.adapters if link.ready is not None else (),
        )

    def _publish(self, effects: Effects) -> None:
        self.feed.publish(effects)
        self.tallies.see(effects)

    def _publish_direct(self, event: DirectEvent) -> None:
        if event.seconds is not None:
            self.tallies.see_direct(event.node_id, event.seconds)
        self.feed.publish_direct(
            "direct_started" if event.outcome is None else "direct_ended",
            request_id=event.request_id,
            model=event.model,
            node_id=event.node_id,
            outcome=event.outcome,
            reason=event.reason,
        )


def _provider_ids(config: EdgeConfig) -> list[str]:
    return [provider.id for node in config.nodes for provider in node.providers]
