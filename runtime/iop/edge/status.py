"""The Edge's status as JSON (`schema: 1`): frozen facts in, one dictionary out, every key always present.

The declared catalog is the source: one snapshot per provider that admission knows, described by the config. What a
node's adapters report describes the node, and never becomes a provider.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from msgspec import to_builtins

from iop.config.models import EdgeConfig
from iop.config.resources import NodeEntry
from iop.domain.snapshots import NodeSnapshot, PoolSnapshot, ProviderSnapshot
from iop.domain.times import iso_utc, iso_utc_or_none
from iop.edge.registry import TurnedAwayEntry
from iop.link.messages import AdapterInfo

#: version of the status JSON
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class EdgeFacts:
    """Who this Edge process is. Times are wall seconds since 1970."""

    id: str
    version: str
    release_id: str
    instance_id: str
    started_at: float
    counting_since: float


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """Which config runs. `sha256` is of the text as read; `last_error` tells why the last candidate was refused."""

    generation: int
    sha256: str
    source: str
    applied_at: float
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """What is known of a node's link: `since` when its present state holds (wall seconds), and who it said it is.

    `adapters` is what the node's `ready` reported; empty when it is not connected or not ready yet.
    """

    since: float | None = None
    version: str | None = None
    release_id: str | None = None
    instance_id: str | None = None
    adapters: tuple[AdapterInfo, ...] = ()


class DirectCounts(Protocol):
    """Requests of the direct route of one node: running now, and ended since the Edge started."""

    @property
    def in_flight(self) -> int:
        """Runs that have not ended."""

    @property
    def completed(self) -> int:
        """Whole answers."""

    @property
    def failed(self) -> int:
        """Runs that ended by themselves without one."""

    @property
    def cancelled(self) -> int:
        """Runs whose client left first."""


@dataclass(frozen=True, slots=True)
class Retired:
    """What a removed provider was, for as long as it still drains (`removing`)."""

    type: str
    category: str
    adapter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFacts:
    """Everything a status is made of. `observed_at` in wall seconds; `last_seq` is the feed's newest event."""

    edge: EdgeFacts
    config: EdgeConfig
    config_facts: ConfigFacts
    pool: PoolSnapshot
    observed_at: float
    links: Mapping[str, LinkFacts] = field(default_factory=dict)
    direct: Mapping[str, DirectCounts] = field(default_factory=dict)
    turned_away: Sequence[TurnedAwayEntry] = ()
    retired: Mapping[str, Retired] = field(default_factory=dict)
    last_seq: int = 0
    now: float = 0.0  # of the clock that drain leases end by


def build_status(facts: StatusFacts) -> dict[str, Any]:
    """Return the status JSON of the interface. Pure; a few microseconds per provider."""
    return {
        "schema": SCHEMA,
        "edge": asdict(facts.edge)
        | {
            "started_at": iso_utc(facts.edge.started_at),
            "counting_since": iso_utc(facts.edge.counting_since),
        },
        "config": asdict(facts.config_facts) | {"applied_at": iso_utc(facts.config_facts.applied_at)},
        "totals": asdict(facts.pool.totals),
        "nodes": [_node(facts, node) for node in facts.config.nodes],
        "provider_snapshots": _providers(facts),
        "models": _models(facts),
        "anomalies": asdict(facts.pool.anomalies),
        "turned_away": [asdict(entry) | {"last_at": iso_utc(entry.last_at)} for entry in facts.turned_away],
        "events": {"last_seq": facts.last_seq},
        "observed_at": iso_utc(facts.observed_at),
    }


def _node(facts: StatusFacts, node: NodeEntry) -> dict[str, Any]:
    seen = next((entry for entry in facts.pool.nodes if entry.id == node.id), None)
    link = facts.links.get(node.id, LinkFacts())
    connected = seen is not None and seen.connected
    return {
        "id": node.id,
        "alias": node.alias,
        "connected": connected,
        "state": seen.state.value if seen else "offline",
        "since": iso_utc_or_none(link.since),
        "version": link.version,
        "release_id": link.release_id,
        "instance_id": link.instance_id,
        "adapters": _adapters(node, link.adapters if connected else ()),
        "direct": _direct(facts.direct.get(node.id)),
        "drain": _drain(seen, facts.now),
    }


def _drain(seen: NodeSnapshot | None, now: float) -> dict[str, Any] | None:
    """The drain lease, None where there is none."""
    if seen is None or seen.drain_until is None:
        return None
    return {"reason": seen.drain_reason, "left_s": round(max(0.0, seen.drain_until - now), 1)}


def _direct(counts: DirectCounts | None) -> dict[str, int]:
    names = ("in_flight", "completed", "failed", "cancelled")
    return {name: getattr(counts, name) if counts else 0 for name in names}


def _adapters(node: NodeEntry, reported: Sequence[AdapterInfo]) -> list[dict[str, Any]]:
    """Declared adapters first, as declared; then what the node reports beyond them (a config not yet taken over)."""
    declared: list[dict[str, Any]] = []
    if node.adapters.cli.enabled:
        declared.append({"name": "cli", "type": "cli", "max_concurrency": 0, "targets": _targets(node, reported)})
    declared.extend(
        {
            "name": instance.name,
            "type": "openai_compat",
            "max_concurrency": node.instance_capacity(instance.name),
            "targets": [],
        }
        for instance in node.adapters.openai_compat_instances
        if instance.enabled
    )
    names = {entry["name"] for entry in declared}
    return declared + [to_builtins(info) for info in reported if info.name not in names]


def _targets(node: NodeEntry, reported: Sequence[AdapterInfo]) -> list[dict[str, Any]]:
    """Declared agents, with what the node says of them; `ready` is null where nobody says anything."""
    said = {target.name: target for info in reported if info.type == "cli" for target in info.targets}
    unknown = "the node has not reported it" if reported else "the node is not connected"
    return [
        {
            "name": name,
            "kind": target.kind,
            "ready": said[name].ready if name in said else None,
            "reason": said[name].reason if name in said else unknown,
        }
        for name, target in node.adapters.cli.targets.items()
    ]


def _providers(facts: StatusFacts) -> list[dict[str, Any]]:
    declared = {
        provider.id: Retired(provider.type, provider.category, provider.adapter)
        for node in facts.config.nodes
        for provider in node.providers
    }
    serves: dict[str, list[str]] = {}
    for model in facts.config.models:
        for provider_id in model.providers or ():
            serves.setdefault(provider_id, []).append(model.id)
    return [
        _provider(snapshot, declared.get(snapshot.provider_id) or facts.retired.get(snapshot.provider_id), serves)
        for snapshot in facts.pool.providers
    ]


def _provider(snapshot: ProviderSnapshot, known: Retired | None, serves: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    oldest = snapshot.oldest_in_flight_s
    return {
        "provider_id": snapshot.provider_id,
        "node_id": snapshot.node_id,
        "type": known.type if known else None,
        "category": known.category if known else None,
        "adapter": known.adapter if known else None,
        "models": list(serves.get(snapshot.provider_id, ())),
        "state": snapshot.state.value,
        "reason": snapshot.reason,
        "capacity": snapshot.capacity,
        "in_flight": snapshot.in_flight,
        "queued": snapshot.queued,
        "over_by": snapshot.over_by,
        "oldest_in_flight_s": None if oldest is None else round(oldest, 3),
        "admitted": snapshot.admitted,
        "adopted": snapshot.adopted,
        "returned": snapshot.returned,
        "completed": snapshot.completed,
        "failed": snapshot.failed,
        "cancelled": snapshot.cancelled,
    }


def _models(facts: StatusFacts) -> list[dict[str, Any]]:
    waiting = {snapshot.id: snapshot for snapshot in facts.pool.models}
    result = []
    for model in facts.config.models:
        line = waiting.get(model.id)
        oldest = line.oldest_wait_s if line else None
        result.append(
            {
                "id": model.id,
                "route": "pool" if model.direct is None else "direct",
                "queued": line.queued if line else 0,
                "oldest_wait_s": None if oldest is None else round(oldest, 3),
            }
        )
    return result
