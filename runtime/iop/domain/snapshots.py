"""Frozen pictures of the pool, for status, feed, smoke and tests. Counters never go down in the life of an Edge."""

from dataclasses import dataclass
from enum import StrEnum


class ProviderState(StrEnum):
    """The first that holds is shown: removing, draining, offline, down, suspect, ready."""

    REMOVING = "removing"
    DRAINING = "draining"
    OFFLINE = "offline"
    DOWN = "down"
    SUSPECT = "suspect"
    READY = "ready"


class NodeState(StrEnum):
    """The first that holds is shown: draining, offline, connected."""

    DRAINING = "draining"
    OFFLINE = "offline"
    CONNECTED = "connected"


@dataclass(frozen=True, slots=True)
class Totals:
    """The pool as a whole, counters of removed providers included; `capacity` sums all declared providers."""

    capacity: int = 0
    in_flight: int = 0
    queued: int = 0
    received: int = 0
    refused: int = 0
    expired: int = 0
    abandoned: int = 0
    admitted: int = 0
    adopted: int = 0
    returned: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class ProviderSnapshot:
    """One declared provider. `queued` = waiters it could serve; `over_by` = in_flight above a shrunk capacity."""

    provider_id: str
    node_id: str
    state: ProviderState
    reason: str | None
    capacity: int
    in_flight: int
    queued: int
    over_by: int
    oldest_in_flight_s: float | None
    admitted: int
    adopted: int
    returned: int
    completed: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """One pool model: how many wait for it and how long the oldest has, in seconds (None when nobody waits)."""

    id: str
    queued: int
    oldest_wait_s: float | None


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """A node as admission sees it: link up or not, and its drain lease's end (same clock as `now`) if it has one."""

    id: str
    state: NodeState
    connected: bool
    drain_until: float | None
    drain_reason: str | None


@dataclass(frozen=True, slots=True)
class Anomalies:
    """Things that must not happen; 0 in every test."""

    double_release: int = 0
    stale_release: int = 0
    node_over_capacity: int = 0


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """Everything admission knows, at one moment."""

    totals: Totals
    providers: tuple[ProviderSnapshot, ...]
    models: tuple[ModelSnapshot, ...]
    nodes: tuple[NodeSnapshot, ...]
    anomalies: Anomalies
