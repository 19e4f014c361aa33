"""An Edge that a test plays: the real admission machine, event log and status, with the test's clock and no sockets."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from iop.admin.wire import AdminUnreachable
from iop.config.models import EdgeConfig
from iop.config.pool import pool_spec
from iop.control.app import build_app
from iop.control.views import Clock, EdgeView, Views
from iop.domain.admission import Admission
from iop.domain.effects import Effects, Outcome
from iop.domain.specs import Ask
from iop.edge.feed import Feed
from iop.edge.registry import TurnedAwayEntry
from iop.edge.status import ConfigFacts, EdgeFacts, LinkFacts, StatusFacts, build_status
from iop.link.messages import AdapterInfo, TargetInfo
from iop.transport.hosts import HostRule
from iop.transport.http_server import listen

TARGETS = {
    "mac-codex-node": (TargetInfo(name="codex", kind="codex", ready=True),),
}


def provider(name: str, capacity: int, kind: str = "other") -> dict[str, Any]:
    """A provider's entry, whose adapter has its name."""
    return {"id": name, "type": kind, "category": "local_inference", "adapter": name, "capacity": capacity}


def node(name: str, *providers: dict[str, Any], alias: str | None = None, agents: Iterable[str] = ()) -> dict[str, Any]:
    """A node's entry with an engine per provider."""
    engines = [
        {"name": entry["id"], "enabled": True, "provider": entry["type"], "endpoint": "http://127.0.0.1:1/v1"}
        for entry in providers
    ]
    adapters: dict[str, Any] = {"openai_compat_instances": engines}
    if agents:
        targets = {agent: {"kind": "codex", "command": ["codex"]} for agent in agents}
        adapters["cli"] = {"enabled": True, "targets": targets}
    return {"id": name, "alias": alias, "adapters": adapters, "providers": list(providers)}


def dev() -> list[dict[str, Any]]:
    """The three hosts of the dev environment."""
    return [
        node("mac-codex-node", provider("mac-mlx-vllm", 3, "vllm-mlx"), alias="mac-codex", agents=["codex"]),
        node("gx10-vllm-node", provider("gx10-vllm", 4, "vllm"), alias="gx10-vllm"),
        node("onexplayer-lemonade-node", provider("onexplayer-lemonade", 3, "lemonade"), alias="onexplayer-lemonade"),
    ]


class ScriptedEdge:
    """One Edge process. `at(seconds)` sets its clock to so many seconds from now; 0 lets it run with ours."""

    def __init__(
        self, nodes: list[dict[str, Any]], *, edge_id: str = "edge-toki-labs-dev", model: str = "local-chat"
    ) -> None:
        names = [entry["id"] for each in nodes for entry in each["providers"]]
        models = [{"id": model, "providers": dict.fromkeys(names, "engine")}]
        queue = {"max_waiting": 20_000, "max_wait": "1h"}
        self.config = EdgeConfig.model_validate(
            {"edge": {"id": edge_id}, "nodes": nodes, "models": models, "queue": queue}
        )
        self.model = model
        self.shift = 0.0
        self.epochs = itertools.count(1)
        self.links: dict[str, int] = {}
        self.away: str | None = None  # why it does not answer
        self.status_changes: Callable[[dict[str, Any]], None] = lambda _status: None
        self.turned_away: list[TurnedAwayEntry] = []
        self.last_error: str | None = None
        self.targets: Mapping[str, tuple[TargetInfo, ...]] = TARGETS
        self.releases: dict[str, str] = {}
        self.boot()

    def boot(self, instance: str = "first") -> None:
        """Start the process anew: all counters, the line and the event log begin again; its nodes are connected."""
        self.admission = Admission()
        self.feed = Feed(self.now, size=8192)
        self.instance, self.started = instance, self.now()
        self.leases: dict[str, int] = {}
        self.do(self.admission.configure(pool_spec(self.config), self.now()))
        for entry in self.config.nodes:
            self.connect(entry.id)

    def now(self) -> float:
        """Wall seconds of this Edge."""
        return time.time() + self.shift

    def at(self, seconds: float) -> None:
        """Let it be `seconds` from now (negative: in the past)."""
        self.shift = seconds

    def do(self, effects: Effects) -> None:
        """Publish what admission did; remember who holds which slot."""
        for effect in effects:
            if effect.lease is not None and effect.type.value == "granted":
                self.leases[effect.lease.request_id] = effect.lease.id
        self.feed.publish(effects)

    def connect(self, node_id: str) -> None:
        """Link a node up, its engines answering."""
        self.links[node_id] = next(self.epochs)
        self.do(self.admission.node_connected(node_id, self.links[node_id], self.now()))

    def lose(self, node_id: str) -> None:
        """Lose its link; what it ran has failed."""
        held = [lease for request, lease in self.leases.items() if self.admission.lease(lease).node_id == node_id]
        self.do(self.admission.node_lost(node_id, self.links[node_id], self.now()))
        for request in [request for request, lease in self.leases.items() if lease in held]:
            self.end(request, Outcome.FAILED)

    def ask(self, *requests: str) -> None:
        """Let requests arrive."""
        for request in requests:
            self.do(self.admission.ask(Ask(request, self.model), self.now()))

    def end(self, request: str, outcome: Outcome = Outcome.COMPLETED) -> None:
        """End the work of a request that holds a slot."""
        self.do(self.admission.end(self.leases.pop(request), outcome, self.now()))

    # -- as the Control Plane reads it -------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        """The status JSON, as `GET /status` gives it."""
        if self.away is not None:
            raise AdminUnreachable(self.away)
        now = self.now()
        facts = StatusFacts(
            edge=EdgeFacts(self.config.edge.id, "0.1.0", "2026.11.30-1", self.instance, self.started, self.started),
            config=self.config,
            config_facts=ConfigFacts(3, "0" * 64, "/srv/iop/shared/edge.yaml", self.started, self.last_error),
            pool=self.admission.snapshot(now),
            observed_at=now,
            links={entry.id: self._link(entry.id) for entry in self.config.nodes},
            turned_away=self.turned_away,
            last_seq=self.feed.last_seq,
            now=now,
        )
        status = build_status(facts)
        self.status_changes(status)
        return status

    def _link(self, node_id: str) -> LinkFacts:
        agents = self.targets.get(node_id, ())
        cli = (AdapterInfo(name="cli", type="cli", max_concurrency=0, targets=agents),) if agents else ()
        release = self.releases.get(node_id, "2026.11.30-1")
        return LinkFacts(self.started, "0.1.0", release, f"{node_id}-1", cli)

    @contextlib.asynccontextmanager
    async def events(self, last_event_id: str | None) -> AsyncIterator[AsyncIterator[bytes]]:
        """The event stream, as `GET /events` gives it."""
        if self.away is not None:
            raise AdminUnreachable(self.away)
        yield self.feed.stream(int(last_event_id) if last_event_id else None)

    async def close(self) -> None:
        """End the streams."""
        self.feed.close()


@contextlib.asynccontextmanager
async def control_plane(
    *edges: ScriptedEdge, accepts: Callable[[str], bool] = lambda _token: False, port: int = 0
) -> AsyncIterator[str]:
    """Serve the Control Plane over these Edges; yield its address."""
    clock = Clock(time.monotonic, time.time)
    views = Views([EdgeView(edge.config.edge.id, edge, clock) for edge in edges])
    listener = await listen(build_app(views, HostRule(), accepts), "127.0.0.1", port, None, stop_within=1.0)
    await asyncio.gather(*(view.look() for view in views.all()))  # as its polls do
    try:
        yield f"http://127.0.0.1:{listener.port}/"
    finally:
        await listener.close()
        await views.close()
