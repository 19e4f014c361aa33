"""Who was taken out of the config, and until when it may finish. Pure; times are monotonic seconds."""

from collections.abc import Collection


class Removals:
    """Ids of one kind that are declared no more, each with its own deadline.

    One deadline per removal and not one per refresh: an id that came back keeps none, and what a later refresh removes
    is not cut by the timer of an earlier one.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def note(self, before: Collection[str], after: Collection[str], until: float) -> None:
        """A refresh replaces the ids `before` by those `after`; what it removes may finish until then."""
        for kept in after:
            self._until.pop(kept, None)
        for gone in before:
            if gone not in after:
                self._until[gone] = until

    def due(self, now: float) -> list[str]:
        """Return the ids whose time is over, in the order of their removal; each is told once."""
        over = [gone for gone, until in self._until.items() if until <= now]
        for gone in over:
            del self._until[gone]
        return over
