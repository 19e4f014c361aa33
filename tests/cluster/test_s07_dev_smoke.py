"""S07: the dev environment, smoked. The same picture is proved on a deployed environment by the deploy tests."""

from pathlib import Path

from iop.config.inventory import load_inventory
from smoke.history import MERGED, Seen, read
from smoke.judgement import judge
from smoke.view import final_load, maxima
from tests.cluster.harness import ROOT
from tests.cluster.smoke_target import deployed, smoke


async def test_s07_the_dev_environment_is_filled_to_the_brim(tmp_path: Path) -> None:
    """S07: three nodes, the Mac with CLI and MLX provider; capacity 10 is reached, one is queued, final 0/0."""
    declared = load_inventory("dev", ROOT)
    async with deployed(tmp_path, capacities={p.id: p.capacity for p in declared.providers.values()}):
        done = await smoke(tmp_path)

    assert (done.code, done.last_line) == (0, "capacity 10/10 · queued max 1 · final 0/0 · 13 passed"), done.stdout
    assert done.folder is not None
    records = read(done.folder / MERGED)
    status = next(r.data["status"] for r in records if isinstance(r, Seen) and r.name == "reachable")
    connected = {node["id"] for node in status["nodes"] if node["connected"]}
    assert connected == {"mac-codex-node", "gx10-vllm-node", "onexplayer-lemonade-node"}
    assert connected == {host.node_id for host in declared.hosts}
    capacities = {entry["provider_id"]: entry["capacity"] for entry in status["provider_snapshots"]}
    assert capacities == {"gx10-vllm": 4, "onexplayer-lemonade": 3, "mac-mlx-vllm": 3}
    mac = next(node for node in status["nodes"] if node["id"] == "mac-codex-node")
    assert [(a["type"], a["max_concurrency"]) for a in mac["adapters"]] == [("cli", 0), ("openai_compat", 3)]
    bursts = {view.round.case: view for view in judge(records).bursts}
    assert set(bursts) == {"capacity-chat", "capacity-responses"}
    for view in bursts.values():
        assert maxima(view) == (10, 1)
        assert final_load(view) == (0, 0)
