"""Kills under load leak nothing: a node, an engine, the Control Plane, a client."""

import asyncio

from tests.cluster.harness import Cluster
from tests.cluster.load import PATHS, Answer, burst, payload, send


def _load(made: Cluster, count: int, tokens: int) -> "asyncio.Future[list[Answer]]":
    return asyncio.ensure_future(burst(made, count, "chat", tokens=tokens))


async def test_a_killed_node_takes_nothing_with_it_but_its_streams(three_nodes: Cluster) -> None:
    """SIGKILL of a node under load: begun streams there end in an error, all others are answered, it comes back."""
    load = _load(three_nodes, 20, 100)
    await three_nodes.status_where(lambda s: s["totals"]["in_flight"] == 10, "a full pool")
    await three_nodes.processes["gx10-vllm-node"].kill()
    await three_nodes.status_where(lambda s: s["nodes"][1]["state"] == "offline", "the node is offline")
    answers = await load

    failed = [a for a in answers if not a.ok]
    assert len(failed) <= 4
    assert all(a.status in (0, 200, 502) for a in failed)
    await three_nodes.start_node("gx10-vllm-node")
    await three_nodes.all_ready()
    await three_nodes.calm()
    assert all(a.ok for a in await burst(three_nodes, 11, "chat", tokens=10))
    await three_nodes.calm()


async def test_a_killed_engine_loses_only_what_it_had_begun(three_nodes: Cluster) -> None:
    """SIGKILL of an engine under load: its begun answers fail visibly, waiting ones go elsewhere, it comes back."""
    load = _load(three_nodes, 20, 100)
    await three_nodes.status_where(lambda s: s["totals"]["in_flight"] == 10, "a full pool")
    await three_nodes.processes["engine-gx10-vllm"].kill()
    answers = await load

    assert len([a for a in answers if not a.ok]) <= 4
    await three_nodes.start_engine("gx10-vllm")
    await three_nodes.all_ready()
    await three_nodes.calm()
    assert all(a.ok for a in await burst(three_nodes, 11, "chat", tokens=10))
    await three_nodes.calm()


async def test_killing_the_control_plane_changes_nothing_for_clients(three_nodes: Cluster) -> None:
    """The Control Plane is a view: with it dead, every request of a burst is still answered."""
    load = _load(three_nodes, 15, 60)
    await three_nodes.status_where(lambda s: s["totals"]["in_flight"] == 10, "a full pool")
    await three_nodes.processes["control"].kill()

    assert all(a.ok for a in await load)
    await three_nodes.calm()


async def test_clients_that_leave_in_the_middle_free_their_slots(three_nodes: Cluster) -> None:
    """Field case B02: fifty clients read a little of a stream and leave; nothing is held afterwards."""

    async def leave_early(number: int) -> None:
        body = payload("chat", tokens=400, stream=True)
        url = three_nodes.openai + PATHS["chat"]
        async with three_nodes.client.stream("POST", url, json=body) as response:
            async for _ in response.aiter_bytes():
                return

    await asyncio.gather(*(leave_early(n) for n in range(50)))
    status = await three_nodes.calm()
    answer = await send(three_nodes, payload("chat", tokens=5, stream=False), "chat", "after")

    assert answer.ok
    assert status["totals"]["cancelled"] >= 1


async def test_clients_that_leave_the_line_are_never_run(three_nodes: Cluster) -> None:
    """Field case B01: twenty waiters leave; they vanish from the line at once and no engine ever sees them."""
    load = _load(three_nodes, 10, 300)
    await three_nodes.status_where(lambda s: s["totals"]["in_flight"] == 10, "a full pool")
    body = payload("chat", tokens=5, stream=False)
    waiters = [asyncio.ensure_future(send(three_nodes, body, "chat", f"gone-{n}")) for n in range(20)]
    await three_nodes.status_where(lambda s: s["totals"]["queued"] == 20, "twenty in line")
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
    status = await three_nodes.status_where(lambda s: s["totals"]["queued"] == 0, "an empty line")

    assert status["totals"]["abandoned"] == 20
    assert all(a.ok for a in await load)
    await three_nodes.calm()
    assert sum([(await three_nodes.stats(p))["started"] for p in three_nodes.capacities]) == 10


async def test_a_stopped_node_leaves_in_order(three_nodes: Cluster) -> None:
    """SIGTERM of a node under load: it finishes what runs (nothing fails), exits 0, the others go on."""
    load = _load(three_nodes, 20, 60)
    await three_nodes.status_where(lambda s: s["totals"]["in_flight"] == 10, "a full pool")
    code = await three_nodes.processes["gx10-vllm-node"].stop()

    assert code == 0
    assert [a for a in await load if not a.ok] == []
    await three_nodes.status_where(lambda s: s["nodes"][1]["state"] == "offline", "the node is offline")
    await three_nodes.calm()


async def test_an_edge_that_is_stopped_finishes_first(three_nodes: Cluster) -> None:
    """SIGTERM of the Edge under load: running and waiting requests are answered, then it exits 0 and can come back."""
    load = _load(three_nodes, 12, 40)
    await three_nodes.status_where(lambda s: s["totals"]["in_flight"] == 10, "a full pool")
    stopping = asyncio.ensure_future(three_nodes.processes["edge"].stop())
    answers = await load

    assert [a for a in answers if not a.ok] == []
    assert await stopping == 0
    three_nodes.write_edge_config()
    await three_nodes.start_edge()
    await three_nodes.all_ready()
    assert all(a.ok for a in await burst(three_nodes, 11, "responses", tokens=10))
    await three_nodes.calm()
