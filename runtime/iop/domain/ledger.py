"""Counters of the pool. They never go down; those of a removed provider stay, also for its coming back."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from iop.domain.effects import Outcome


class Fate(StrEnum):
    """What can happen to a slot: two ways to be taken, four ways to end."""

    ADMITTED = "admitted"
    ADOPTED = "adopted"
    RETURNED = "returned"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FATE_OF_OUTCOME = {
    Outcome.COMPLETED: Fate.COMPLETED,
    Outcome.FAILED: Fate.FAILED,
    Outcome.CANCELLED: Fate.CANCELLED,
}


@dataclass(slots=True)
class Ledger:
    """Counters of the line, of slots (summed and per provider id), and of anomalies."""

    received: int = 0
    refused: int = 0
    expired: int = 0
    abandoned: int = 0
    double_release: int = 0
    stale_release: int = 0
    node_over_capacity: int = 0
    slots: Counter[Fate] = field(default_factory=Counter)
    by_provider: dict[str, Counter[Fate]] = field(default_factory=dict)

    def of(self, provider_id: str) -> Counter[Fate]:
        """Return the counters of one provider, kept for as long as the Edge lives."""
        return self.by_provider.setdefault(provider_id, Counter())

    def count(self, provider_id: str, fate: Fate) -> None:
        """Count one taken or ended slot, for the provider and in the sum."""
        self.of(provider_id)[fate] += 1
        self.slots[fate] += 1
