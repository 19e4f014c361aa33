"""Providers and nodes: who takes new work now, and which of several does.

A provider's state is never stored: it follows from its node's link and drain lease, its probe, its silence and the
config.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from iop.domain.silence import Silence
from iop.domain.snapshots import NodeState, ProviderState

#: states in which a candidate does not count as coming back
GONE = frozenset({ProviderState.OFFLINE, ProviderState.DOWN})


@dataclass(slots=True, eq=False)
class Node:
    """A node as admission sees it: its link (with the link's epoch) and its drain lease, times in seconds.

    `stopping`: its process has said on this link that it finishes what runs and leaves.
    """

    id: str
    epoch: int = -1
    connected: bool = False
    link_reason: str | None = "not connected yet"
    drain_until: float | None = None
    drain_reason: str | None = None
    stopping: bool = False
    shown: tuple[NodeState, bool] = (NodeState.OFFLINE, False)

    @property
    def is_draining(self) -> bool:
        """Tell whether it gets nothing new: by a lease, or because it is stopping."""
        return self.drain_until is not None or self.stopping

    @property
    def state(self) -> NodeState:
        """The first that holds: draining, offline, connected."""
        if self.is_draining:
            return NodeState.DRAINING
        return NodeState.CONNECTED if self.connected else NodeState.OFFLINE

    @property
    def reason(self) -> str | None:
        """Why it is in that state."""
        if self.drain_until is not None:
            return self.drain_reason
        return "stopping" if self.stopping else self.link_reason


@dataclass(slots=True, eq=False)
class Provider:
    """A provider and its slots. `leases` maps a lease id to the time of its grant, oldest first.

    `busy` is set when its node said busy: no grant until the next end, hello or good probe.
    """

    id: str
    node: Node
    capacity: int
    up: bool = True
    health_reason: str | None = None
    busy: bool = False
    removing: bool = False
    last_pick: int = 0
    shown: ProviderState | None = None
    leases: dict[int, float] = field(default_factory=dict)
    silence: Silence = field(default_factory=Silence)

    @property
    def in_flight(self) -> int:
        """Slots held now."""
        return len(self.leases)

    @property
    def state(self) -> ProviderState:
        """The first that holds: removing, draining, offline, down, suspect, ready."""
        return self._state(drain_ignored=False)

    def _state(self, *, drain_ignored: bool) -> ProviderState:
        if self.removing:
            return ProviderState.REMOVING
        if self.node.is_draining and not drain_ignored:
            return ProviderState.DRAINING
        if not self.node.connected:
            return ProviderState.OFFLINE
        if not self.up:
            return ProviderState.DOWN
        return ProviderState.SUSPECT if self.silence.is_suspect else ProviderState.READY

    def reason_of(self, state: ProviderState, now: float) -> str | None:
        """Why it is in that state, its own; None when ready and unhindered."""
        match state:
            case ProviderState.REMOVING:
                return "removed from the config"
            case ProviderState.DRAINING:
                return self.node.reason
            case ProviderState.OFFLINE:
                return self.node.link_reason
            case ProviderState.DOWN:
                return self.health_reason
            case ProviderState.SUSPECT:
                return self.silence.describe(now)
            case _:
                return "its node said busy" if self.busy else None

    def take(self, lease_id: int, now: float, *, streams: bool) -> None:
        """Hold a slot. `streams`: bytes of this work come here as they are made, so that its silence is evidence."""
        if not self.leases:
            self.silence.heard_at = now
        self.leases[lease_id] = now
        if streams:
            self.silence.streams[lease_id] = now

    def free(self, lease_id: int, now: float) -> None:
        """Hold the slot no more: its work has ended."""
        del self.leases[lease_id]
        self.busy = False
        self.silence.ended(lease_id, now)

    def takes_work(self, *, drain_ignored: bool) -> bool:
        """Tell whether a slot of it may be granted now."""
        if self.busy or len(self.leases) >= self.capacity:
            return False
        return self._state(drain_ignored=drain_ignored) is ProviderState.READY

    def is_gone(self, *, drain_ignored: bool) -> bool:
        """Tell whether it is offline or down, so that waiting for it is a matter of grace."""
        return self._state(drain_ignored=drain_ignored) in GONE


class Fleet:
    """All providers (declared, and removed ones that still hold slots) and all nodes heard of.

    `capacity`: slots of all declared providers, ready or not.
    """

    def __init__(self) -> None:
        self.providers: dict[str, Provider] = {}
        self.nodes: dict[str, Node] = {}
        self.capacity = 0
        self._drained: dict[str, Node] = {}
        self._picks = 0

    def recount(self) -> None:
        """Sum the capacities anew, after a change of the config."""
        self.capacity = sum(provider.capacity for provider in self.providers.values() if not provider.removing)

    def node(self, node_id: str) -> Node:
        """Return the node, making its record when it is new: a node need not have providers."""
        return self.nodes.setdefault(node_id, Node(node_id))

    def drain(self, node: Node, until: float, reason: str | None) -> None:
        """Begin or replace a node's drain lease."""
        node.drain_until, node.drain_reason = until, reason
        self._drained[node.id] = node

    def undrain(self, node: Node) -> None:
        """End a node's drain lease."""
        node.drain_until = node.drain_reason = None
        self._drained.pop(node.id, None)

    def drains(self) -> list[tuple[float, Node]]:
        """Return the ends of the drain leases (seconds), in the order in which the leases began."""
        if not self._drained:
            return []
        return [(node.drain_until, node) for node in self._drained.values() if node.drain_until is not None]

    def of_node(self, node: Node) -> list[Provider]:
        """Return the node's providers."""
        return [provider for provider in self.providers.values() if provider.node is node]

    def declared(self, provider_ids: Iterable[str]) -> tuple[Provider, ...]:
        """Return those of the named providers that are in the config."""
        found = (self.providers.get(provider_id) for provider_id in dict.fromkeys(provider_ids))
        return tuple(provider for provider in found if provider is not None and not provider.removing)

    def pick(self, candidates: Sequence[Provider]) -> Provider:
        """Choose: lowest in-flight / capacity, then more free slots, then the one not picked for longest."""
        chosen = min(candidates, key=_preference) if len(candidates) > 1 else candidates[0]
        self._picks += 1
        chosen.last_pick = self._picks
        return chosen

    def nodes_in_use(self) -> list[Node]:
        """Return nodes with a provider, a link or a drain lease; of others only the link's last epoch is kept."""
        used = {provider.node.id for provider in self.providers.values()}
        return [
            node for node in self.nodes.values() if node.id in used or node.connected or node.drain_until is not None
        ]


def _preference(provider: Provider) -> tuple[float, int, int]:
    held, capacity = len(provider.leases), provider.capacity
    return held / capacity, held - capacity, provider.last_pick
