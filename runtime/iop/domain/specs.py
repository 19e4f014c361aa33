"""What admission is told: providers, pool models and bounds of the line; and who asks for a slot."""

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


@dataclass(frozen=True, slots=True)
class Ask:
    """A request at the door, for a slot of any provider of its model unless one is named.

    `owner`: only this provider will do, which made the response that the request continues. `check`: only this one will
    do, which is to be checked, and its drain is ignored. `key_max_waiting`: places in line for all requests of `key`.
    `streams`: its answer comes as it is made, so that silence of it means something.
    """

    request_id: str
    model: str
    key: str | None = None
    key_max_waiting: int | None = None
    owner: str | None = None
    check: str | None = None
    streams: bool = False
