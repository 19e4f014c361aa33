"""What the Edge counts from events, for its metrics: plain numbers under bounded names, a dictionary look-up each.

The names are the config's (models, providers, nodes) and the interface's (outcomes, codes); what is not among them is
not counted, so that nobody outside can make series. What a refresh removes goes with the next `declare`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from iop.config.models import EdgeConfig
from iop.domain.effects import Effect, Effects, EffectType, Outcome
from iop.domain.errors import CODES

T = TypeVar("T")

#: upper bounds in seconds: from a request that waits for nobody to the longest answers of a large model
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
#: a code that is none of the interface's, such as an engine's own
OTHER = "other"

#: how a pool request can end
ENDS = ("completed", "failed", "cancelled", "refused", "expired", "abandoned")
_UNSERVED = frozenset({EffectType.REFUSED, EffectType.EXPIRED, EffectType.ABANDONED})


class Durations:
    """A histogram of seconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class ModelTally:
    """Requests for one model: pool requests by how they ended, by the code of a refusal; seconds of its answers."""

    ended: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(ENDS, 0)))
    codes: Counter[str] = field(default_factory=Counter)
    waits: Durations = field(default_factory=Durations)
    first_bytes: Durations = field(default_factory=Durations)


class Tallies:
    """Reads the effects of admission and the ends of direct runs and requests. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun: dict[int, float] = {}
        self.models: dict[str, ModelTally] = {}
        self.holds: dict[str, Durations] = {}
        self.direct: dict[str, Durations] = {}
        self.answers: Counter[tuple[str, str]] = Counter()
        self.errors: Counter[str] = Counter(dict.fromkeys([*CODES, OTHER], 0))

    def declare(self, config: EdgeConfig) -> None:
        """Count for what this config names from now on, and forget the rest."""
        providers = [provider.id for node in config.nodes for provider in node.providers]
        self.models = _kept(self.models, (model.id for model in config.models), ModelTally)
        self.holds = _kept(self.holds, providers, Durations)
        self.direct = _kept(self.direct, (node.id for node in config.nodes), Durations)

    def see(self, effects: Effects) -> None:
        """Count what admission did."""
        for effect in effects:
            kind = effect.type
            if kind is EffectType.GRANTED:
                self._granted(effect)
            elif kind is EffectType.ENDED or kind is EffectType.RETURNED:
                self._released(effect)
            elif kind in _UNSERVED and effect.model is not None and (tally := self.models.get(effect.model)):
                tally.ended[kind.value] += 1
                if effect.reason is not None:
                    tally.codes[known_code(effect.reason)] += 1

    def see_direct(self, node_id: str, seconds: float) -> None:
        """A direct run of this node has ended."""
        if (durations := self.direct.get(node_id)) is not None:
            durations.add(seconds)

    def see_answer(self, route: str, status: int | None, code: str | None) -> None:
        """A request has ended. `status` is what its client got, None for nothing; `code` of an error of iop's own."""
        self.answers[route, f"{status // 100}xx" if status is not None else "none"] += 1
        if code is not None:
            self.errors[known_code(code)] += 1

    def see_first_byte(self, model: str | None, seconds: float) -> None:
        """The answer to a request for this model began, so long after the request had come in whole."""
        if model is not None and (tally := self.models.get(model)) is not None:
            tally.first_bytes.add(seconds)

    def _granted(self, effect: Effect) -> None:
        if effect.lease is not None and effect.model is not None:
            self._begun[effect.lease.id] = self._clock()
            if (tally := self.models.get(effect.model)) is not None:
                tally.waits.add(effect.lease.waited)

    def _released(self, effect: Effect) -> None:
        """A slot is free again. Adopted work was granted by an earlier Edge: how long it ran is not known here."""
        begun = self._begun.pop(effect.lease.id, None) if effect.lease is not None else None
        if begun is None or effect.type is EffectType.RETURNED:
            return
        if (durations := self.holds.get(effect.provider_id or "")) is not None:
            durations.add(self._clock() - begun)
        if (tally := self.models.get(effect.model or "")) is not None:
            tally.ended[effect.outcome or Outcome.FAILED] += 1


def known_code(code: str) -> str:
    """Return an error code of the interface as it is, any other as `other`."""
    return code if code in CODES else OTHER


def _kept(old: Mapping[str, T], ids: Iterable[str], make: Callable[[], T]) -> dict[str, T]:
    return {name: old[name] if name in old else make() for name in ids}
