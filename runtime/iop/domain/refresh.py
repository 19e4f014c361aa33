"""Taking over a new pool: the first config, and each refresh. Live work is never cut here."""

from iop.domain.effects import EffectType
from iop.domain.fleet import Provider
from iop.domain.pool import Pool
from iop.domain.specs import PoolSpec, ProviderSpec


def apply(pool: Pool, spec: PoolSpec, now: float) -> None:
    """Make the pool what `spec` says: add, resize, reroute, remove; then let waiters move on, expire or be granted."""
    pool.bounds, pool.wedge_after = spec.bounds, spec.wedge_after
    for provider_spec in spec.providers:
        _declare(pool, provider_spec)
    declared = {provider_spec.id for provider_spec in spec.providers}
    touched = list(pool.fleet.providers.values())
    for provider in touched:
        provider.removing = provider.id not in declared
    pool.fleet.recount()
    pool.routes.configure(spec.models)
    _reroute(pool)
    pool.show(touched, now)
    for provider in touched:
        if provider.removing and not provider.leases:
            del pool.fleet.providers[provider.id]
    _expire_stranded(pool)
    pool.dispatch(pool.fleet.providers.values(), now)


def _declare(pool: Pool, spec: ProviderSpec) -> None:
    node = pool.fleet.node(spec.node_id)
    provider = pool.fleet.providers.get(spec.id)
    if provider is None:
        pool.fleet.providers[spec.id] = Provider(spec.id, node, spec.capacity)
        return
    provider.node = node
    if provider.capacity != spec.capacity:
        before, provider.capacity = provider.capacity, spec.capacity
        pool.fleet.recount()
        pool.about_provider(EffectType.CAPACITY, provider, f"{before} -> {spec.capacity}")


def _reroute(pool: Pool) -> None:
    """Give each group of waiters its candidates of now."""
    for group in list(pool.line.groups.values()):
        candidates = pool.routes.candidates(group.head().request)
        if candidates != group.candidates:
            pool.line.reroute(group, candidates)


def _expire_stranded(pool: Pool) -> None:
    """Let those go who have no candidate left."""
    for group in list(pool.line.groups.values()):
        if not group.candidates:
            for place in group.places():
                pool.expire(place, pool.routes.nobody_left(place.request))
