"""A node that lies to the Edge harms its own requests and nobody else's."""

import asyncio
import contextlib

import pytest

from iop.link.messages import Cancel, End, Run, TurnedAway
from tests.attack.rogues import CLAIMS, LIES, PROVIDER, VICTIM, Lie, ask, rogue
from tests.attack.target import Target
from tests.fakes.link_peers import FakeNode, hello

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
async def test_a_lie_ends_its_own_request_only(target: Target, lie: Lie) -> None:
    """The client is told something of the interface or the node's own answer; others' work goes on meanwhile."""
    async with rogue(target) as node:
        asked = asyncio.ensure_future(ask(target))
        run = await node.expect(Run)
        others = asyncio.ensure_future(_others(target))
        with contextlib.suppress(ConnectionError):
            await lie.do(node, run.run)
            await node.writer.drain()
        answer = await asked
        assert answer.status_code in lie.told, answer.text
        assert "x-evil" not in answer.headers
        assert "set-cookie" not in answer.headers
        assert answer.headers["x-request-id"] != "forged"
        assert answer.headers.get("x-iop-provider", PROVIDER) == PROVIDER
        assert await others == [200] * 6
        assert node.closed is not lie.stays
        status = await target.cluster.status()
        assert next(p for p in status["provider_snapshots"] if p["provider_id"] == VICTIM)["state"] == "ready"
        assert len(str(status)) < 100_000


async def _others(target: Target) -> list[int]:
    """Requests to the honest nodes."""
    body = {"model": "pool", "messages": [{"role": "user", "content": "hi"}]}
    url = f"{target.cluster.openai}/chat/completions"
    answers = await asyncio.gather(*(target.cluster.client.post(url, json=body) for _ in range(6)))
    return [answer.status_code for answer in answers]


async def test_a_run_that_never_ends_holds_its_own_slot_only(target: Target) -> None:
    """Its client leaves and the node says nothing: the slot is held, as the work may go on, until its link ends."""
    async with rogue(target) as node:
        asked = asyncio.ensure_future(ask(target))
        await node.expect(Run)
        asked.cancel()
        await node.expect(Cancel)
        await asyncio.gather(asked, return_exceptions=True)
        assert await _others(target) == [200] * 6
        status = await target.cluster.status()
        assert status["totals"]["in_flight"] == 1
    await target.cluster.calm()


async def test_work_that_it_claims_counts_for_its_own_providers_only(target: Target) -> None:
    """What a hello says to run elsewhere is not counted there, what it says twice once; its ends are taken once."""
    async with rogue(target, running=CLAIMS) as node:
        status = await target.cluster.status_where(
            lambda s: any(p["provider_id"] == PROVIDER and p["state"] == "ready" for p in s["provider_snapshots"]),
            "the rogue is ready",
        )
        held = {entry["provider_id"]: entry["in_flight"] for entry in status["provider_snapshots"]}
        assert held[VICTIM] == 0
        assert held[PROVIDER] <= 20
        for number in (*range(60), 7, 7, 2**32, -1):
            node.send(End(run=number, outcome="completed"))
        assert await _others(target) == [200] * 6


async def test_nobody_takes_the_place_of_a_node_that_answers(target: Target) -> None:
    """A hundred newcomers with the id of a living node are turned away, and it goes on working."""
    before = {node["id"]: node["since"] for node in (await target.cluster.status())["nodes"]}
    address = target.address("nodes")
    thieves = await asyncio.gather(*(FakeNode.connect(address) for _ in range(100)))
    try:
        for number, thief in enumerate(thieves):
            thief.send(hello("gx10-vllm-node", f"thief-{number}", token=None))
        assert await _others(target) == [200] * 6
        for thief in thieves:
            assert (await thief.expect(TurnedAway)).code == "duplicate_node"
    finally:
        for thief in thieves:
            await thief.close()
    assert {node["id"]: node["since"] for node in (await target.cluster.status())["nodes"]} == before
