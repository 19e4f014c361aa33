"""The Edge's parts together: refresh, removal, drain, shutdown."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from iop.domain.law import violations_of_status
from iop.link.messages import Bye, Cancel, Config, End, Head, ProviderHealth, Ready
from tests.fakes.edge_under_test import ENGINE, PROVIDER, EdgeUnderTest, config, edge_under_test
from tests.fakes.link_peers import FakeNode, hello
from tests.fakes.until import until

ENTRY: dict[str, Any] = config()["nodes"][0]


async def _refresh(edge: EdgeUnderTest, mode: str = "apply", **changes: Any) -> dict[str, Any]:
    listen = (
        {name: edge.ready[name] for name in ("openai", "nodes", "admin")} if "listen" in changes else config()["listen"]
    )
    text = yaml.safe_dump({**config(), **changes, "listen": changes.get("listen", listen)})
    body = {"mode": mode, "config": text, "source": str(edge.folder / "edge.yaml")}
    headers = {"Authorization": f"Bearer {edge.core.token}"}
    answer = await edge.session.post(edge.url("/config/refresh", "admin"), json=body, headers=headers)
    assert answer.status == 200, await answer.text()
    found: dict[str, Any] = await answer.json()
    return found


async def _acknowledge(node: FakeNode, count: int) -> None:
    node.send(Ready(generation=(await node.expect(Config, count)).generation))


async def test_growth_starts_waiters_and_is_acknowledged(edge: EdgeUnderTest) -> None:
    """A capacity raised by refresh hands the new slot to the line at once; the node acknowledges generation 2."""
    node = await edge.node()
    waiting = [asyncio.ensure_future(edge.post()) for _ in range(3)]
    await edge.run(node, 2)
    await until(lambda: edge.load() == (2, 1))
    acknowledged = asyncio.ensure_future(_acknowledge(node, 2))
    plan = await _refresh(edge, nodes=[{**ENTRY, "providers": [{**PROVIDER, "capacity": 3}]}])
    await acknowledged
    await edge.run(node, 3)

    assert (plan["generation"], plan["new_generation"]) == (1, 2)
    assert [c["kind"] for c in plan["changes"]] == ["resized"]
    assert plan["nodes"] == [{"id": "n1", "acknowledged": True}]
    assert edge.load() == (3, 0)
    for n in range(3):
        node.answer((await edge.run(node, n + 1)).run)
    assert [a.status for a in await asyncio.gather(*waiting)] == [200] * 3
    await node.close()


async def test_a_removed_provider_finishes_or_is_cut_and_its_waiters_are_told(edge: EdgeUnderTest) -> None:
    """Field case B51: waiters of a model that is gone get 404 at once; the running stream is cut at drain_timeout."""
    node = await edge.node()
    waiting = [asyncio.ensure_future(edge.post()) for _ in range(3)]
    run = await edge.run(node, 2)
    await until(lambda: edge.load() == (2, 1))
    acknowledged = asyncio.ensure_future(_acknowledge(node, 2))
    agent = config()["models"][1]
    await _refresh(edge, nodes=[{**ENTRY, "providers": []}], models=[agent])
    await acknowledged
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    told = done.pop().result()
    assert edge.status()["provider_snapshots"][0]["state"] == "removing"
    for cancel in (await node.expect(Cancel), await node.expect(Cancel, 2)):
        node.send(End(run=cancel.run, outcome="cancelled"))
    statuses = sorted([a.status for a in await asyncio.gather(*waiting)])

    assert run.provider_id == "p1"
    assert (told.status, (await told.json())["error"]["code"]) == (404, "model_not_found")
    assert statuses == [404, 502, 502]
    await until(lambda: edge.status()["provider_snapshots"] == [])
    assert violations_of_status(edge.status()) == []
    await node.close()


async def test_a_removed_node_is_turned_away_after_its_time(edge: EdgeUnderTest) -> None:
    """A node that is declared no more keeps its link for drain_timeout and is then told unknown_node."""
    node = await edge.node()
    other = {"id": "n2", "adapters": {"openai_compat_instances": [ENGINE]}, "providers": [PROVIDER]}
    models = [{"id": "m", "providers": {"p1": "x"}}]
    await _refresh(edge, nodes=[other], models=models)
    await node.gone()

    assert edge.status()["turned_away"][0]["code"] == "unknown_node"
    await node.close()


async def test_a_removed_node_gets_its_whole_time_after_another_refresh(tmp_path: Path) -> None:
    """The timer of an earlier refresh does not turn away a node that a later refresh removed."""
    async with edge_under_test(tmp_path, drain_timeout="1s") as edge:
        node = await edge.node()
        acknowledged = asyncio.ensure_future(_acknowledge(node, 2))
        await _refresh(edge, nodes=[{**ENTRY, "providers": [{**PROVIDER, "capacity": 3}]}], drain_timeout="1s")
        await acknowledged
        removed = asyncio.get_running_loop().time()
        other = {"id": "n2", "adapters": {"openai_compat_instances": [ENGINE]}, "providers": [PROVIDER]}
        await _refresh(edge, nodes=[other], models=[{"id": "m", "providers": {"p1": "x"}}], drain_timeout="1s")
        await node.gone()

        assert asyncio.get_running_loop().time() - removed >= 1.0
        await node.close()


async def test_dry_run_changes_nothing(edge: EdgeUnderTest) -> None:
    """The plan is told, the generation stays."""
    plan = await _refresh(edge, "dry-run", nodes=[{**ENTRY, "providers": [{**PROVIDER, "capacity": 9}]}])

    assert (len(plan["changes"]), plan["new_generation"]) == (1, None)
    assert edge.status()["config"]["generation"] == 1
    assert edge.status()["totals"]["capacity"] == 2


@pytest.mark.parametrize("answered", [True, False], ids=["in-time", "cut"])
async def test_shutdown_lets_waiters_finish_or_cuts_at_the_deadline(tmp_path: Path, answered: bool) -> None:
    """Waiters keep their places until drain_timeout; what then still runs is cut, and everybody is told."""
    async with edge_under_test(tmp_path, drain_timeout="30s" if answered else "50ms") as edge:
        node = await edge.node()
        waiting = [asyncio.ensure_future(edge.post(body={"model": "m", "stream": False})) for _ in range(3)]
        await edge.run(node, 2)
        await until(lambda: edge.load() == (2, 1))
        draining = asyncio.ensure_future(edge.service.drain())
        await until(lambda: edge.core.shutting_down)
        late = await edge.post()
        if answered:
            for n in range(3):
                node.answer((await edge.run(node, n + 1)).run)
        else:
            for n in (1, 2):
                node.send(End(run=(await node.expect(Cancel, n)).run, outcome="cancelled"))
        await draining
        codes = sorted([a.status for a in await asyncio.gather(*waiting)])

        assert (late.status, (await late.json())["error"]["code"]) == (503, "shutting_down")
        assert codes == ([200] * 3 if answered else [503] * 3)
        await node.close()


async def test_status_names_the_node_and_its_release(edge: EdgeUnderTest) -> None:
    """Status shows who connected, and that it left."""
    node = await edge.node(version="1.2", release_id="r9", instance_id="i9")
    shown = edge.status()["nodes"][0]
    assert (shown["connected"], shown["version"], shown["release_id"], shown["instance_id"]) == (
        True,
        "1.2",
        "r9",
        "i9",
    )
    await node.close()
    await until(lambda: not edge.status()["nodes"][0]["connected"])

    assert edge.status()["nodes"][0]["state"] == "offline"
    assert edge.status()["provider_snapshots"][0]["state"] == "offline"


async def test_a_node_that_is_not_ready_gets_no_work(edge: EdgeUnderTest) -> None:
    """Between hello and its first `ready` a node is connected to nobody's mind: no run reaches it."""
    stranger = await FakeNode.connect(edge.address("nodes"))
    stranger.send(hello("n1", token=None))
    await stranger.expect(Config)
    waiting = asyncio.ensure_future(edge.post())
    await until(lambda: edge.load() == (0, 1))
    assert stranger.all(Head) == []
    stranger.send(Ready(generation=1))
    run = await edge.run(stranger)
    stranger.answer(run.run)

    assert (await waiting).status == 200
    await stranger.close()


async def test_a_node_that_stops_is_draining_until_it_is_gone(edge: EdgeUnderTest) -> None:
    """Status and events say `draining` with the reason; waiters wait, direct requests are told; then it is offline."""
    node = await edge.node()
    running = asyncio.ensure_future(edge.post())
    run = await edge.run(node)
    node.send(Ready(generation=1, stopping=True))
    node.send(ProviderHealth(provider_id="p1", up=False, reason="the node is stopping"))
    await until(lambda: edge.status()["nodes"][0]["state"] == "draining")
    waiting = asyncio.ensure_future(edge.post())
    await until(lambda: edge.load() == (1, 1))
    direct = await edge.post(body={"model": "agent", "messages": [{"role": "user", "content": "x"}]})
    told = edge.status()["provider_snapshots"][0]

    assert (told["state"], told["reason"]) == ("draining", "stopping")
    assert edge.status()["nodes"][0]["connected"] is True
    assert (direct.status, (await direct.json())["error"]["code"]) == (503, "node_draining")
    node.answer(run.run)
    assert (await running).status == 200
    node.send(Bye())
    await until(lambda: edge.status()["nodes"][0]["state"] == "offline")
    again = await edge.node(instance_id="i2")
    again.answer((await edge.run(again)).run)
    assert (await waiting).status == 200
    for each in (node, again):
        await each.close()
