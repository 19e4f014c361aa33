"""What the admission machine tells its caller: one record per thing that happened, in order. Records are tuples: they
cannot be changed, and making one costs next to nothing, as every request makes a few.

The door acts on `granted`, `returned`, `refused` and `expired`; the feed publishes all of them as events.
"""

from enum import StrEnum
from typing import NamedTuple

from iop.domain.errors import IopError


class EffectType(StrEnum):
    """The event types of the interface that admission makes (direct_* and gap are made by the Edge)."""

    QUEUED = "queued"
    GRANTED = "granted"
    RETURNED = "returned"
    ENDED = "ended"
    REFUSED = "refused"
    EXPIRED = "expired"
    ABANDONED = "abandoned"
    ADOPTED = "adopted"
    CAPACITY = "capacity"
    PROVIDER = "provider"
    NODE = "node"


class Outcome(StrEnum):
    """How a run ended: `completed` = a whole answer, status < 500, no error event; `cancelled` = client left first."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Load(NamedTuple):
    """Slots declared, slots held and requests waiting, at one moment (each waiter counted once in totals)."""

    capacity: int
    in_flight: int
    queued: int


class Lease(NamedTuple):
    """One slot held by one request. `id` is unique in the life of the Edge; `epoch` is the node's link epoch.

    `waited` is the time in line in seconds, from first arrival to this grant.
    """

    id: int
    request_id: str
    model: str
    provider_id: str
    node_id: str
    epoch: int
    waited: float


class Effect(NamedTuple):
    """One thing that happened, with the pool's load (and that provider's) right after it.

    `lease` is set for granted, returned, ended and adopted; `error` for refused and expired, and for an `ended` whose
    client must still be told (a grant that failed with no candidate left).
    """

    type: EffectType
    totals: Load
    request_id: str | None = None
    model: str | None = None
    provider_id: str | None = None
    node_id: str | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    provider: Load | None = None
    lease: Lease | None = None
    error: IopError | None = None


Effects = tuple[Effect, ...]
