"""Counters of the pool. They never go down; those of a removed provider stay, also for its coming back."""

from dataclasses import dataclass, field
from typing import Literal

#: what can happen to a slot: two ways to be taken, four ways to end
Fate = Literal["admitted", "adopted", "returned", "completed", "failed", "cancelled"]


@dataclass(slots=True)
class SlotCounters:
    """How often slots were taken and how those grants ended."""

    admitted: int = 0
    adopted: int = 0
    returned: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


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
    slots: SlotCounters = field(default_factory=SlotCounters)
    by_provider: dict[str, SlotCounters] = field(default_factory=dict)

    def of(self, provider_id: str) -> SlotCounters:
        """Return the counters of one provider, kept for as long as the Edge lives."""
        counters = self.by_provider.get(provider_id)
        if counters is None:
            counters = self.by_provider[provider_id] = SlotCounters()
        return counters

    def count(self, provider_id: str, fate: Fate) -> None:
        """Count one taken or ended slot, for the provider and in the sum."""
        for counters in (self.of(provider_id), self.slots):
            setattr(counters, fate, getattr(counters, fate) + 1)
