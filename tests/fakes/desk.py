"""A desk to work an Admission from: small pools, terse effects, and the law checked after each call."""

from typing import Any

from iop.domain.admission import Admission
from iop.domain.effects import Effect, Outcome
from iop.domain.law import violations
from iop.domain.snapshots import ModelSnapshot, NodeSnapshot, PoolSnapshot, ProviderSnapshot
from iop.domain.specs import Ask, LineBounds, PoolSpec, ProviderSpec


def pool_of(
    capacities: dict[str, int],
    models: dict[str, tuple[str, ...]] | None = None,
    wedge_after: float = 120.0,
    **bounds: float,
) -> PoolSpec:
    """Each provider `p` is on its node `n-p`; without models, model `m` is served by all."""
    specs = tuple(ProviderSpec(name, f"n-{name}", slots) for name, slots in capacities.items())
    return PoolSpec(specs, models or {"m": tuple(capacities)}, LineBounds(**bounds), wedge_after)


class Desk:
    """`connect=False` leaves every node offline. `now` is set by the test."""

    def __init__(
        self,
        capacities: dict[str, int],
        models: dict[str, tuple[str, ...]] | None = None,
        *,
        connect: bool = True,
        **bounds: float,
    ) -> None:
        self.now = 100.0
        self.admission = Admission()
        self.do("configure", pool_of(capacities, models, **bounds))
        if connect:
            for name in capacities:
                self.do("node_connected", f"n-{name}", 1)

    def do(self, call: str, *args: object, **options: object) -> tuple[Effect, ...]:
        """Make a call at `now` and check the law, and that the last effect tells the load of now."""
        arguments = [*args]
        place = {"node_connected": 2}.get(call, len(arguments))
        arguments.insert(place, self.now)
        effects = getattr(self.admission, call)(*arguments, **options)
        assert violations(self.snapshot()) == []
        if effects:
            assert effects[-1].totals == self.admission.load()
        return effects

    def ask(self, *request_ids: str, model: str = "m", **options: Any) -> list[tuple[object, ...]]:
        """Ask for each; tersely what happened."""
        return [entry for request in request_ids for entry in terse(self.do("ask", Ask(request, model, **options)))]

    def end(self, request_id: str, outcome: Outcome = Outcome.COMPLETED) -> list[tuple[object, ...]]:
        """End the open grant of a request; tersely what happened."""
        return terse(self.do("end", self.lease_of(request_id), outcome))

    def lease_of(self, request_id: str) -> int:
        """Find the open lease of a request by trying every id given out so far."""
        totals = self.snapshot().totals
        for lease_id in range(totals.admitted + totals.adopted, 0, -1):
            lease = self.admission.lease(lease_id)
            if lease is not None and lease.request_id == request_id:
                return lease_id
        raise AssertionError(f"{request_id} holds no slot")

    def snapshot(self) -> PoolSnapshot:
        return self.admission.snapshot(self.now)

    def provider(self, name: str) -> ProviderSnapshot:
        return next(p for p in self.snapshot().providers if p.provider_id == name)

    def node(self, name: str) -> NodeSnapshot:
        return next(n for n in self.snapshot().nodes if n.id == name)

    def model(self, name: str) -> ModelSnapshot:
        return next(m for m in self.snapshot().models if m.id == name)


def terse(effects: tuple[Effect, ...]) -> list[tuple[object, ...]]:
    """Tell each effect as (type, subject, provider): the request, else the node of a node effect."""
    return [
        tuple(
            part
            for part in (effect.type.value, effect.request_id or (None if effect.provider_id else effect.node_id))
            if part is not None
        )
        + ((effect.provider_id,) if effect.provider_id else ())
        for effect in effects
    ]
