"""What admission must know of the config: providers with their capacity, pool models, bounds of the line."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """One provider: the only owner of concurrency. `capacity` is a count of slots, >= 1."""

    id: str
    node_id: str
    capacity: int


@dataclass(frozen=True, slots=True)
class LineBounds:
    """Bounds of the line: `max_waiting` requests, `max_wait` and `offline_grace` in seconds."""

    max_waiting: int = 256
    max_wait: float = 120.0
    offline_grace: float = 30.0


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """Everything admission is configured with; `models` maps a pool model id to its provider ids.

    `wedge_after` (seconds): how long a full provider with waiters may be silent until it is suspect.
    """

    providers: tuple[ProviderSpec, ...]
    models: Mapping[str, tuple[str, ...]]
    bounds: LineBounds = field(default_factory=LineBounds)
    wedge_after: float = 120.0
