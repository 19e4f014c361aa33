"""Field case B40 with processes: either end of a link is stopped (SIGSTOP) far longer than `link.dead_after`."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.harness import Cluster, cluster, eventually
from tests.cluster.load import Answer, burst

NODE = "gx10-vllm-node"
#: seconds; each process is stopped for six of them
DEAD_AFTER = 1.0


@pytest.fixture
async def quick(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Three nodes; a silent peer is given up within a second."""
    async with cluster(tmp_path, options={"link": {"dead_after": f"{DEAD_AFTER:g}s"}}) as made:
        yield made


def _load(made: Cluster, tokens: int) -> "asyncio.Future[list[Answer]]":
    return asyncio.ensure_future(burst(made, 14, "chat", tokens=tokens))


async def _served_again(made: Cluster, instance_ids: dict[str, str]) -> None:
    """All nodes are back by themselves, as the processes they were, and serve a burst; nothing is left over."""
    status = await made.status_where(
        lambda s: all(p["state"] == "ready" for p in s["provider_snapshots"]), "all providers ready"
    )
    assert {node["id"]: node["instance_id"] for node in status["nodes"]} == instance_ids
    await made.calm()
    assert all(answer.ok for answer in await burst(made, made.total + 1, "chat", tokens=5))
    await made.calm()


async def test_a_stopped_node_is_given_up_and_comes_back(quick: Cluster) -> None:
    """Field case B40: its streams end with an error, its slots are free, the rest is answered; later it redials."""
    ids = {node["id"]: node["instance_id"] for node in (await quick.status())["nodes"]}
    load = _load(quick, 200)
    await quick.status_where(lambda s: s["totals"]["in_flight"] == 10, "a full pool")
    node = quick.processes[NODE]
    node.signal(signal.SIGSTOP)
    try:
        status = await quick.status_where(lambda s: s["nodes"][1]["state"] == "offline", "the node is offline")
        assert status["provider_snapshots"][1]["in_flight"] == 0
        await asyncio.sleep(6 * DEAD_AFTER)
        answers = await load
    finally:
        node.signal(signal.SIGCONT)
    assert len([answer for answer in answers if not answer.ok]) <= 4
    assert all(answer.error or answer.status == 502 for answer in answers if not answer.ok)
    await _served_again(quick, ids)


async def test_a_stopped_edge_is_given_up_by_its_nodes_and_found_again(quick: Cluster) -> None:
    """Field case B40, the other end: nodes stop their work and redial; the Edge goes on where the nodes find it."""
    ids = {node["id"]: node["instance_id"] for node in (await quick.status())["nodes"]}
    load = _load(quick, 400)
    await quick.status_where(lambda s: s["totals"]["in_flight"] == 10, "a full pool")
    edge = quick.processes["edge"]
    edge.signal(signal.SIGSTOP)
    try:
        for provider in quick.capacities:  # the nodes gave the Edge up and stopped their engines' work
            await _no_work_in(quick, provider)
        await asyncio.sleep(6 * DEAD_AFTER)
    finally:
        edge.signal(signal.SIGCONT)
    answers = await load
    assert len(answers) == 14
    await _served_again(quick, ids)


async def _no_work_in(made: Cluster, provider: str) -> None:
    async def idle() -> bool:
        return not (await made.stats(provider))["running"]

    await eventually(idle, f"{provider} has stopped its work")
