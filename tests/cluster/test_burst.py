"""Capacity proved from outside: bursts over three nodes, judged by the event log and the engines' own counters."""

from pathlib import Path

import pytest

from tests.cluster.harness import Cluster, cluster
from tests.cluster.load import burst
from tests.cluster.proof import prove


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_capacity_plus_one_fills_the_pool_and_queues_exactly_one(
    shared: Cluster, endpoint: str, stream: bool
) -> None:
    """Eleven at once over 3+4+3 slots: total 10, exactly one in line, all answered, 0/0 at the end."""
    await prove(shared, 11, endpoint, stream=stream)


async def test_other_bursts_over_other_capacities(tmp_path: Path) -> None:
    """Twenty-five at once over 1+2+5 slots: total 8, seventeen in line, never over."""
    capacities = {"mac-mlx-vllm": 1, "gx10-vllm": 2, "onexplayer-lemonade": 5}
    async with cluster(tmp_path, capacities=capacities, rate=100.0) as made:
        await prove(made, 25, "chat", tokens=30)


async def test_first_in_first_out(shared: Cluster) -> None:
    """Requests are granted in the order in which they joined the line (Field case B08)."""
    seq = (await shared.status())["events"]["last_seq"]
    answers = await burst(shared, 40, "chat", tokens=10)
    events = await shared.events_after(seq, 40)

    queued = [e["request_id"] for e in events if e["type"] == "queued"]
    granted = [e["request_id"] for e in events if e["type"] == "granted" and e["request_id"] in set(queued)]
    assert granted == queued
    assert len(queued) == 30
    assert all(a.ok and int(a.headers["x-iop-queue-ms"]) >= 0 for a in answers)
    await shared.calm()
