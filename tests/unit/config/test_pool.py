"""What admission gets of a config."""

from iop.config.load import read_edge
from iop.config.pool import pool_spec
from iop.domain.specs import LineBounds, PoolSpec, ProviderSpec
from tests.fakes.config_files import EDGE, changed


def test_the_pool_has_providers_pool_models_bounds_and_wedge_after() -> None:
    """Direct models are none of admission's business; bounds are in requests and seconds."""
    text = changed(("edge: {", "queue: {max_waiting: 7, max_wait: 1m, offline_grace: 0s}\nwedge_after: 9s\nedge: {"))
    config = read_edge(text, source="/cfg/edge.yaml").config
    assert config is not None
    expected = PoolSpec((ProviderSpec("p1", "n1", 3),), {"m": ("p1",)}, LineBounds(7, 60.0, 0.0), 9.0)
    assert pool_spec(config) == expected


def test_runtime_concurrency_does_not_reach_admission() -> None:
    """Rule 1: the legacy number changes nothing in what admission is configured with."""
    plain = read_edge(EDGE, source="/cfg/edge.yaml").config
    legacy = read_edge(changed(("  - id: n1\n", "  - id: n1\n    runtime: {concurrency: 1}\n")), source="/cfg/e").config
    assert plain is not None
    assert legacy is not None
    assert pool_spec(plain) == pool_spec(legacy)
