"""The node's own gate: so many runs per provider id and not one more, whatever link they came by."""

from collections.abc import Mapping


class Gate:
    """Counts the slots held per provider. Counts outlive links and config pushes; capacity is only ever a bound.

    `NodeRuntimeConfig.concurrency` has no place here: capacity belongs to the provider.
    """

    def __init__(self) -> None:
        self._capacity: dict[str, int] = {}
        self._held: dict[str, int] = {}

    def configure(self, capacities: Mapping[str, int]) -> None:
        """Take new capacities over. Work above a shrunk capacity, or of a removed provider, keeps its slot."""
        self._capacity = dict(capacities)

    def take(self, provider_id: str) -> bool:
        """Take a slot if one is free; an unknown provider has none."""
        held = self.in_flight(provider_id)
        if held >= self._capacity.get(provider_id, 0):
            return False
        self._held[provider_id] = held + 1
        return True

    def give(self, provider_id: str) -> None:
        """Give a slot back. Raises ValueError when none is held: that would be a fault of the runner."""
        held = self.in_flight(provider_id)
        if held < 1:
            raise ValueError(f"no slot of {provider_id} is held")
        self._held[provider_id] = held - 1

    def in_flight(self, provider_id: str) -> int:
        """Slots held now."""
        return self._held.get(provider_id, 0)
