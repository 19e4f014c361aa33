"""Field case B77: nothing is shown as alive that is not; every value tells its age."""

import asyncio
from pathlib import Path

import pytest

from iop.admin.aio import AsyncAdminReader
from iop.control.views import Clock, EdgeView
from tests.fakes.edge_under_test import edge_under_test
from tests.fakes.until import until


async def test_a_frozen_node_is_offline_within_dead_after(tmp_path: Path) -> None:
    """A node that answers nothing (SIGSTOP) is shown offline, its provider too, with a reason and since when."""
    async with edge_under_test(tmp_path, link={"dead_after": "600ms"}) as edge:
        node = await edge.node(instance_id="frozen")
        connected = edge.status()["nodes"][0]["since"]
        node.answers = False
        await until(lambda: edge.status()["nodes"][0]["state"] == "offline")
        shown = edge.status()

        assert (shown["nodes"][0]["connected"], shown["nodes"][0]["instance_id"]) == (False, None)
        assert shown["nodes"][0]["since"] > connected
        provider = shown["provider_snapshots"][0]
        assert provider["state"] == "offline"
        assert "s" in provider["reason"]
        await node.close()


async def test_held_slots_and_waiters_tell_their_age(tmp_path: Path) -> None:
    """A provider whose answers never come shows how old its oldest run and the oldest wait are, in the same status."""
    async with edge_under_test(tmp_path) as edge:
        node = await edge.node()
        held = [asyncio.ensure_future(edge.post()) for _ in range(3)]
        await until(lambda: edge.load() == (2, 1))
        await until(lambda: edge.status()["provider_snapshots"][0]["oldest_in_flight_s"] > 0.05)
        status = edge.status()
        model = next(m for m in status["models"] if m["id"] == "m")

        assert model["queued"] == status["totals"]["queued"] == 1
        assert 0 < model["oldest_wait_s"] <= status["provider_snapshots"][0]["oldest_in_flight_s"]
        await node.close()
        for request in held:
            request.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        await until(lambda: edge.load() == (0, 0))


async def test_counters_of_a_new_edge_say_since_when_they_count(tmp_path: Path) -> None:
    """After a restart all counters are 0, and `counting_since` and the instance tell that it is another Edge."""
    seen = []
    for _ in range(2):
        async with edge_under_test(tmp_path) as edge:
            node = await edge.node()
            asked = asyncio.ensure_future(edge.post())
            node.answer((await edge.run(node)).run)
            assert (await asked).status == 200
            await until(lambda edge=edge: edge.status()["totals"]["completed"] == 1)
            seen.append(edge.status()["edge"])
            await node.close()

    assert seen[0]["instance_id"] != seen[1]["instance_id"]
    assert seen[0]["counting_since"] < seen[1]["counting_since"]


async def test_the_control_plane_says_when_it_knows_nothing_new(tmp_path: Path) -> None:
    """With the Edge gone list and detail agree: not reachable, stale, and the same growing age."""
    now = [100.0]
    async with edge_under_test(tmp_path) as edge:
        reader = AsyncAdminReader(edge.url("", "admin"))
        view = EdgeView("edge-test", reader, Clock(lambda: now[0], lambda: 1e9 + now[0]))
        fresh = await view.status()
        assert (fresh["control"]["stale"], fresh["control"]["age_s"]) == (False, 0.0)
        assert view.summary() == {"id": "edge-test", "reachable": True, "age_s": 0.0}
        now[0] += 42
        for listener in edge.service._listeners.values():  # nobody answers there any more
            await listener.close()
        stale = await view.status()
        await reader.close()

    assert (stale["control"]["stale"], stale["control"]["age_s"]) == (True, 42.0)
    assert stale["control"]["fetched_at"] == fresh["control"]["fetched_at"]
    assert view.summary() == {"id": "edge-test", "reachable": False, "age_s": pytest.approx(42.0)}
