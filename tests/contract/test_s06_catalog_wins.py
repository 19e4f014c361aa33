"""S06: a node has a resource catalog and legacy adapter snapshots; status shows the catalog, without duplicates."""

from iop.config.load import read_edge
from iop.domain.admission import Admission
from iop.domain.specs import PoolSpec, ProviderSpec
from iop.edge.status import ConfigFacts, EdgeFacts, LinkFacts, StatusFacts, build_status
from iop.link.messages import AdapterInfo

TEXT = """
edge: {id: edge-test}
nodes:
  - id: mac-codex-node
    adapters:
      cli: {enabled: true, targets: {echo: {kind: text, command: [python3, /abs/agent.py]}}}
      openai_compat_instances:
        - {name: mac-mlx-vllm, enabled: true, provider: vllm-mlx, endpoint: "http://127.0.0.1:8002/v1", capacity: 3}
    providers:
      - {id: mac-mlx-vllm, type: vllm-mlx, category: local_inference, adapter: mac-mlx-vllm, capacity: 3}
models:
  - {id: m, providers: {mac-mlx-vllm: engine-model}}
"""
#: what a node of the earlier kind tells of its adapters, each looking like a provider of its own
LEGACY = (
    AdapterInfo(name="mac-mlx-vllm", type="openai_compat", max_concurrency=1),
    AdapterInfo(name="cli", type="cli", max_concurrency=1),
    AdapterInfo(name="mac-mlx-vllm-adapter", type="openai_compat", max_concurrency=8),
)


def read_status():
    """Read the status of an Edge whose only node is connected and reports legacy adapters."""
    config = read_edge(TEXT, source="/abs/edge.yaml").config
    assert config is not None
    admission = Admission()
    spec = PoolSpec((ProviderSpec("mac-mlx-vllm", "mac-codex-node", 3),), {"m": ("mac-mlx-vllm",)})
    admission.configure(spec, 0.0)
    admission.node_connected("mac-codex-node", 1, 0.0)
    return build_status(
        StatusFacts(
            edge=EdgeFacts("edge-test", "1", "r", "i", 0.0, 0.0),
            config=config,
            config_facts=ConfigFacts(1, "", "/abs/edge.yaml", 0.0),
            pool=admission.snapshot(0.0),
            observed_at=0.0,
            links={"mac-codex-node": LinkFacts(0.0, "1", "r", "i", LEGACY)},
        )
    )


def test_s06_one_snapshot_per_declared_provider():
    """The catalog's provider is shown once, as declared; no adapter is shown as a provider."""
    status = read_status()
    assert [(entry["provider_id"], entry["capacity"]) for entry in status["provider_snapshots"]] == [
        ("mac-mlx-vllm", 3)
    ]
    assert status["totals"]["capacity"] == 3


def test_s06_the_declared_limits_win_over_reported_ones():
    """A legacy adapter's own limit changes neither the CLI's 0 nor the instance's declared capacity."""
    (node,) = read_status()["nodes"]
    limits = [(entry["name"], entry["max_concurrency"]) for entry in node["adapters"]]
    assert node["connected"]
    assert limits[:2] == [("cli", 0), ("mac-mlx-vllm", 3)]
    assert len({name for name, _ in limits}) == len(limits)
