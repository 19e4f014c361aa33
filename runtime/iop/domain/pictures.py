"""The frozen picture of the pool, made anew whenever somebody asks."""

from iop.domain.fleet import Provider
from iop.domain.pool import Pool
from iop.domain.snapshots import Anomalies, ModelSnapshot, NodeSnapshot, PoolSnapshot, ProviderSnapshot, Totals


def picture(pool: Pool, now: float) -> PoolSnapshot:
    """Show everything at `now` (seconds); the cost follows providers and groups, not the length of the line."""
    ledger = pool.ledger
    return PoolSnapshot(
        totals=_totals(pool),
        providers=tuple(_provider(pool, provider, now) for provider in pool.fleet.providers.values()),
        models=_models(pool, now),
        nodes=tuple(
            NodeSnapshot(node.id, node.state, node.connected, node.drain_until, node.drain_reason)
            for node in pool.fleet.nodes_in_use()
        ),
        anomalies=Anomalies(ledger.double_release, ledger.stale_release, ledger.node_over_capacity),
    )


def _totals(pool: Pool) -> Totals:
    ledger, load, slots = pool.ledger, pool.load(), pool.ledger.slots
    return Totals(
        capacity=load.capacity,
        in_flight=load.in_flight,
        queued=load.queued,
        received=ledger.received,
        refused=ledger.refused,
        expired=ledger.expired,
        abandoned=ledger.abandoned,
        admitted=slots.admitted,
        adopted=slots.adopted,
        returned=slots.returned,
        completed=slots.completed,
        failed=slots.failed,
        cancelled=slots.cancelled,
    )


def _provider(pool: Pool, provider: Provider, now: float) -> ProviderSnapshot:
    slots = pool.ledger.of(provider.id)
    state = provider.state
    oldest = next(iter(provider.leases.values()), None)
    return ProviderSnapshot(
        provider_id=provider.id,
        node_id=provider.node.id,
        state=state,
        reason=provider.reason_of(state, now),
        capacity=provider.capacity,
        in_flight=provider.in_flight,
        queued=pool.line.queued_for(provider.id),
        over_by=max(0, provider.in_flight - provider.capacity),
        oldest_in_flight_s=None if oldest is None else now - oldest,
        admitted=slots.admitted,
        adopted=slots.adopted,
        returned=slots.returned,
        completed=slots.completed,
        failed=slots.failed,
        cancelled=slots.cancelled,
    )


def _models(pool: Pool, now: float) -> tuple[ModelSnapshot, ...]:
    queued = dict.fromkeys(pool.routes.models, 0)
    arrived: dict[str, float] = {}
    for group in pool.line.groups.values():
        model = group.key.model
        if model in queued:
            queued[model] += group.live
            first = group.head().request.arrived
            arrived[model] = min(first, arrived.get(model, first))
    return tuple(
        ModelSnapshot(model, count, now - arrived[model] if count else None) for model, count in queued.items()
    )
