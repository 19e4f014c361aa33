"""The direct route: straight to the node, counted there, touching nothing of the pool."""

import asyncio
from pathlib import Path

from iop.link.messages import Cancel, End, Head
from tests.fakes.edge_under_test import EdgeUnderTest, edge_under_test
from tests.fakes.until import until

BODY = {"model": "agent", "messages": [{"role": "user", "content": "hi"}]}
JSON = (("content-type", "application/json"),)


def _direct(edge: EdgeUnderTest) -> dict[str, int]:
    found: dict[str, int] = edge.status()["nodes"][0]["direct"]
    return found


async def test_an_agent_answers_through_its_node(edge: EdgeUnderTest) -> None:
    """The node gets target and whole body; the answer names the node and no provider; events are direct ones."""
    node = await edge.node()
    seq = edge.core.feed.last_seq
    waiting = asyncio.ensure_future(edge.post(body=BODY))
    run = await edge.run(node)
    assert _direct(edge)["in_flight"] == 1
    node.answer(run.run, b'{"agent": true}')
    answer = await waiting

    assert (run.adapter, run.target, run.provider_id, run.provider_pool) == ("cli", "echo", None, False)
    assert run.model_group_key == "agent"
    assert await answer.read() == b'{"agent": true}'
    assert answer.headers["x-iop-node"] == "n1"
    assert "x-iop-provider" not in answer.headers
    assert [e.type for e in edge.core.feed.events_after(seq)] == ["direct_started", "direct_ended"]
    assert _direct(edge) == {"in_flight": 0, "completed": 1, "failed": 0, "cancelled": 0}
    assert edge.status()["totals"]["received"] == 0
    await node.close()


async def test_a_failed_agent_is_a_502_with_its_reason(edge: EdgeUnderTest) -> None:
    """No empty success: the agent's last words are the error."""
    node = await edge.node()
    waiting = asyncio.ensure_future(edge.post(body=BODY))
    run = await edge.run(node)
    node.send(End(run=run.run, outcome="failed", failure="agent_failed", detail="not logged in"))
    answer = await waiting
    error = (await answer.json())["error"]

    assert (answer.status, error["code"]) == (502, "agent_failed")
    assert "not logged in" in error["message"]
    assert _direct(edge)["failed"] == 1
    await node.close()


async def test_offline_and_draining_nodes_refuse_at_once(edge: EdgeUnderTest) -> None:
    """Direct requests do not wait: 503 node_offline or node_draining."""
    offline = await edge.post(body=BODY)
    node = await edge.node()
    edge.core.door.drain("n1", 60.0, None)
    draining = await edge.post(body=BODY)

    assert (offline.status, (await offline.json())["error"]["code"]) == (503, "node_offline")
    assert (draining.status, (await draining.json())["error"]["code"]) == (503, "node_draining")
    assert int(draining.headers["Retry-After"]) >= 1
    await node.close()


async def test_a_client_that_leaves_cancels_the_agent(edge: EdgeUnderTest) -> None:
    """The node is told; the run counts as cancelled once it has ended."""
    node = await edge.node()
    waiting = asyncio.ensure_future(edge.post(body=BODY))
    run = await edge.run(node)
    waiting.cancel()
    assert (await node.expect(Cancel)).run == run.run
    node.send(End(run=run.run, outcome="cancelled"))
    await until(lambda: _direct(edge)["cancelled"] == 1)
    await node.close()


async def test_a_lost_link_ends_direct_work_with_an_error(edge: EdgeUnderTest) -> None:
    """Direct work is never run again: its client gets a 502."""
    node = await edge.node()
    waiting = asyncio.ensure_future(edge.post(body=BODY))
    await edge.run(node)
    await node.close()
    answer = await waiting

    assert (answer.status, (await answer.json())["error"]["code"]) == (502, "upstream_unreachable")
    assert _direct(edge)["failed"] == 1


async def test_shutdown_cuts_agents_at_the_drain_deadline(tmp_path: Path) -> None:
    """At drain_timeout the agent is stopped and its client told; the Edge does not wait for ever."""
    async with edge_under_test(tmp_path, drain_timeout="50ms") as edge:
        node = await edge.node()
        waiting = asyncio.ensure_future(edge.post(body={**BODY, "stream": True}))
        run = await edge.run(node)
        node.send(Head(run=run.run, status=200, headers=JSON))
        draining = asyncio.ensure_future(edge.service.drain())
        assert (await node.expect(Cancel)).why == "limit"
        node.send(End(run=run.run, outcome="cancelled"))
        await draining
        answer = await waiting

        assert (answer.status, (await answer.json())["error"]["code"]) == (503, "shutting_down")
        assert _direct(edge)["failed"] == 1
        await node.close()
