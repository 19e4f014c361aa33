"""What admission must know of an edge.yaml."""

from iop.config.models import EdgeConfig
from iop.domain.specs import LineBounds, PoolSpec, ProviderSpec


def pool_spec(config: EdgeConfig) -> PoolSpec:
    """Every declared provider, every pool model (direct ones are none of admission's business), the bounds."""
    providers = tuple(
        ProviderSpec(provider.id, node.id, provider.capacity) for node in config.nodes for provider in node.providers
    )
    models = {model.id: tuple(model.providers) for model in config.models if model.direct is None}
    queue = config.queue
    bounds = LineBounds(queue.max_waiting, queue.max_wait, queue.offline_grace)
    return PoolSpec(providers, models, bounds, config.wedge_after)
