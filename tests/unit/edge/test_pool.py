"""The pool route from the client's socket to the node's link and back."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from iop.link.messages import Cancel, End, Head, ProviderHealth, Run, RunningWork
from tests.fakes.edge_under_test import ENGINE, PROVIDER, EdgeUnderTest, edge_under_test
from tests.fakes.until import until

JSON = (("content-type", "application/json"),)


async def test_the_engines_answer_comes_back_as_it_is(edge: EdgeUnderTest) -> None:
    """Status, bytes and allowed headers pass; the engine is asked under its own model name, all other bytes kept."""
    node = await edge.node()
    body = b'{ "model" : "m", "messages": [],\n "odd": 1.50, "u": "\\u00e9" }'
    waiting = asyncio.ensure_future(
        edge.session.post(edge.url("/v1/chat/completions"), data=body, headers={"x-request-id": "r1"})
    )
    run = await edge.run(node)
    node.send(Head(run=run.run, status=418, headers=(*JSON, ("set-cookie", "a=b"), ("retry-after", "7"))))
    node.send_body(run.run, b'{"teapot" : true }', end=True)
    node.send(End(run=run.run, outcome="completed"))
    answer = await waiting

    assert bytes(node.bodies[run.run]) == body.replace(b'"m"', b'"engine-m"')
    assert (run.adapter, run.provider_id, run.provider_pool, run.model_group_key) == ("e1", "p1", True, "m")
    assert (answer.status, await answer.read()) == (418, b'{"teapot" : true }')
    assert answer.headers["x-iop-provider"] == "p1"
    assert answer.headers["x-iop-queue-ms"].isdigit()
    assert answer.headers["x-request-id"] == "r1"
    assert answer.headers["retry-after"] == "7"
    assert "set-cookie" not in answer.headers
    await node.close()


async def test_the_third_waits_for_a_slot_and_says_how_long(edge: EdgeUnderTest) -> None:
    """Two slots, three requests: one waits until a run has ended, not longer."""
    node = await edge.node()
    waiting = [asyncio.ensure_future(edge.post()) for _ in range(3)]
    await edge.run(node, 2)
    await until(lambda: edge.load() == (2, 1))
    first = node.all(Run)[0]
    node.answer(first.run)
    third = await edge.run(node, 3)
    for run in (node.all(Run)[1], third):
        node.answer(run.run)

    assert sorted([answer.status for answer in await asyncio.gather(*waiting)]) == [200, 200, 200]
    await node.close()


async def test_a_slot_is_held_until_the_end_not_the_last_byte(edge: EdgeUnderTest) -> None:
    """Field case B09: head and body alone do not free the slot; the node's `end` does."""
    node = await edge.node()
    waiting = asyncio.ensure_future(edge.post())
    run = await edge.run(node)
    node.send(Head(run=run.run, status=200, headers=JSON))
    node.send_body(run.run, b"{}", end=True)
    await until(lambda: edge.core.links.node("n1").running == 1)
    assert edge.load() == (1, 0)
    node.send(End(run=run.run, outcome="completed"))
    await waiting
    assert edge.load() == (0, 0)
    await node.close()


@pytest.mark.parametrize("head", [True, False], ids=["streaming", "thinking"])
async def test_a_client_that_leaves_cancels_and_the_slot_waits_for_the_end(edge: EdgeUnderTest, head: bool) -> None:
    """Field case B03: the node is told at once; the slot is free when it says that the work has stopped."""
    node = await edge.node()
    client = asyncio.ensure_future(edge.post(body={"model": "m", "stream": True}))
    run = await edge.run(node)
    if head:
        node.send(Head(run=run.run, status=200, headers=(("content-type", "text/event-stream"),)))
        await client
        (await client).close()
    else:
        client.cancel()
    cancel = await node.expect(Cancel)
    assert (cancel.run, cancel.why, edge.load()) == (run.run, "client", (1, 0))
    node.send(End(run=run.run, outcome="cancelled"))
    await until(lambda: edge.load() == (0, 0))
    assert edge.status()["totals"]["cancelled"] == 1
    await node.close()


async def test_a_failure_without_a_status_goes_to_the_next_provider(tmp_path: Path) -> None:
    """Refused by one engine, the request is served by the other; its client sees nothing of it."""
    engines = [ENGINE, {**ENGINE, "name": "e2"}]
    providers = [{**PROVIDER, "capacity": 1}, {**PROVIDER, "id": "p2", "adapter": "e2", "capacity": 1}]
    nodes = [{"id": "n1", "adapters": {"openai_compat_instances": engines}, "providers": providers}]
    async with edge_under_test(
        tmp_path, nodes=nodes, models=[{"id": "m", "providers": {"p1": "a", "p2": "b"}}]
    ) as edge:
        node = await edge.node(up=("p1", "p2"))
        waiting = asyncio.ensure_future(edge.post())
        first = await edge.run(node)
        node.send(End(run=first.run, outcome="failed", failure="unreachable", detail="refused"))
        second = await edge.run(node, 2)
        node.answer(second.run)
        answer = await waiting

        assert {first.provider_id, second.provider_id} == {"p1", "p2"}
        assert json.loads(node.bodies[second.run])["model"] == {"p1": "a", "p2": "b"}[second.provider_id]
        assert (answer.status, answer.headers["x-iop-provider"]) == (200, second.provider_id)
        assert edge.status()["totals"]["returned"] == 1
        await node.close()


async def test_with_no_provider_left_it_is_a_502_that_names_them(edge: EdgeUnderTest) -> None:
    """The last candidate failed: upstream_unreachable, with each provider's failure."""
    node = await edge.node()
    waiting = asyncio.ensure_future(edge.post())
    run = await edge.run(node)
    node.send(End(run=run.run, outcome="failed", failure="reset", detail="closed before a status line"))
    answer = await waiting
    error = (await answer.json())["error"]

    assert (answer.status, error["code"]) == (502, "upstream_unreachable")
    assert "p1" in error["message"]
    assert "x-iop-provider" not in answer.headers
    assert edge.status()["totals"]["failed"] == 1
    await node.close()


async def test_a_lost_link_before_the_status_returns_the_request(edge: EdgeUnderTest) -> None:
    """The node dies before the engine answered; with no other provider the client gets the 502, the slot is free."""
    node = await edge.node()
    waiting = asyncio.ensure_future(edge.post())
    await edge.run(node)
    await node.close()

    assert (await waiting).status == 502
    assert edge.load() == (0, 0)


async def test_a_lost_link_after_the_status_is_an_error_and_never_a_second_run(edge: EdgeUnderTest) -> None:
    """Once the engine's status was seen the request is not run again: 502 for a whole answer."""
    node = await edge.node()
    waiting = asyncio.ensure_future(edge.post())
    run = await edge.run(node)
    node.send(Head(run=run.run, status=200, headers=JSON))
    await until(lambda: edge.core.links.node("n1")._runs[run.run].head_seen)
    await node.close()
    answer = await waiting

    assert (answer.status, (await answer.json())["error"]["code"]) == (502, "upstream_unreachable")
    assert edge.status()["totals"]["returned"] == 0


async def test_the_line_refuses_beyond_its_bound(tmp_path: Path) -> None:
    """Field case B10: beyond queue.max_waiting 429 with Retry-After; the wait ends with 503 queue_timeout."""
    queue = {"max_waiting": 1, "max_wait": "50ms"}
    async with edge_under_test(
        tmp_path,
        queue=queue,
        nodes=[
            {"id": "n1", "adapters": {"openai_compat_instances": [ENGINE]}, "providers": [{**PROVIDER, "capacity": 1}]}
        ],
        models=[{"id": "m", "providers": {"p1": "x"}}],
    ) as edge:
        node = await edge.node()
        running = asyncio.ensure_future(edge.post())
        run = await edge.run(node)
        waiting = asyncio.ensure_future(edge.post())
        await until(lambda: edge.load() == (1, 1) or waiting.done())
        answers = [await edge.post(), await waiting]
        node.answer(run.run)

        codes = {(a.status, (await a.json())["error"]["code"]) for a in answers}
        assert (503, "queue_timeout") in codes
        assert codes <= {(503, "queue_timeout"), (429, "queue_full")}
        assert all(int(a.headers["Retry-After"]) >= 1 for a in answers)
        assert (await running).status == 200
        await node.close()


async def test_the_admins_check_of_one_provider(edge: EdgeUnderTest) -> None:
    """The check runs on a draining node with the same slots and relay; it needs the token."""
    node = await edge.node()
    edge.core.door.drain("n1", 60.0, "upgrade")
    url = edge.url("/providers/p1/v1/chat/completions", "admin")
    body = {"model": "m", "messages": []}
    refused = await edge.session.post(url, json=body)
    headers = {"Authorization": f"Bearer {edge.core.token}"}
    waiting = asyncio.ensure_future(edge.session.post(url, json=body, headers=headers))
    run = await edge.run(node)
    node.answer(run.run)
    unknown = await edge.session.post(edge.url("/providers/none/v1/responses", "admin"), json=body, headers=headers)

    assert refused.status == 401
    assert ((await waiting).status, (await waiting).headers["x-iop-provider"]) == (200, "p1")
    assert unknown.status == 404
    await node.close()


async def test_what_a_restarted_link_still_runs_is_adopted(edge: EdgeUnderTest) -> None:
    """Work that the hello reports holds its slot until the node says that it ended; then it counts as cancelled."""
    work = {"run": 5, "request_id": "old", "adapter": "e1", "provider_id": "p1"}
    direct = {"run": 6, "request_id": "old-agent", "adapter": "cli"}
    node = await edge.node(running=(RunningWork(**work), RunningWork(**direct)))
    await until(lambda: edge.load() == (1, 0))
    assert edge.status()["nodes"][0]["direct"]["in_flight"] == 1
    node.send(End(run=5, outcome="completed"))
    node.send(End(run=6, outcome="completed"))
    await until(lambda: edge.load() == (0, 0))

    assert edge.status()["totals"]["adopted"] == 1
    assert edge.status()["totals"]["cancelled"] == 1
    assert edge.status()["nodes"][0]["direct"] == {"in_flight": 0, "completed": 0, "failed": 0, "cancelled": 1}
    await node.close()


async def test_a_node_speaks_of_its_own_providers_only(edge: EdgeUnderTest) -> None:
    """A probe's result for somebody else's provider changes nothing."""
    node = await edge.node()
    node.send(ProviderHealth(provider_id="other", up=False))
    node.send(ProviderHealth(provider_id="p1", up=False, reason="refused"))
    await until(lambda: edge.status()["provider_snapshots"][0]["state"] == "down")

    assert edge.status()["provider_snapshots"][0]["reason"]
    await node.close()


async def test_an_engine_that_is_silent_to_its_probe_too_is_suspect(tmp_path: Path) -> None:
    """The node tells of the silence; full and with a waiter, the provider takes nothing more until a good probe."""
    async with edge_under_test(tmp_path, wedge_after="20ms") as edge:
        node = await edge.node()
        waiting = [asyncio.ensure_future(edge.post()) for _ in range(3)]
        runs = [await edge.run(node, 1), await edge.run(node, 2)]
        await until(lambda: edge.load() == (2, 1))
        node.send(ProviderHealth(provider_id="p1", up=True, silent=True))
        await until(lambda: _provider(edge)["state"] == "suspect")
        assert _provider(edge)["reason"].endswith("; its engine does not answer the probe")
        node.send(ProviderHealth(provider_id="p1", up=True))
        await until(lambda: (_provider(edge)["state"], _provider(edge)["reason"]) == ("ready", None))
        for run in runs:
            node.answer(run.run)
        node.answer((await edge.run(node, 3)).run)
        assert [answer.status for answer in await asyncio.gather(*waiting)] == [200] * 3
        await node.close()


def _provider(edge: EdgeUnderTest) -> dict[str, Any]:
    found: dict[str, Any] = edge.status()["provider_snapshots"][0]
    return found
