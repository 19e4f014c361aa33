"""S05: a direct and a pool request both carry a model group key; only the pool request uses the queue."""

import asyncio
from pathlib import Path

from iop.link.messages import Run
from tests.fakes.edge_under_test import edge_under_test
from tests.fakes.until import until


async def test_s05_only_the_pool_request_queues(tmp_path: Path) -> None:
    """S05: with every slot taken and a waiter in line, the direct request is dispatched at once and takes no slot."""
    async with edge_under_test(tmp_path) as edge:
        node = await edge.node()
        pool = [asyncio.ensure_future(edge.post()) for _ in range(3)]
        await edge.run(node, 2)
        await until(lambda: edge.load() == (2, 1))
        direct = asyncio.ensure_future(edge.post(body={"model": "agent", "messages": []}))
        run = await edge.run(node, 3)

        assert run.model_group_key == "agent"
        assert (run.provider_pool, edge.load()) == (False, (2, 1))
        node.answer(run.run)
        assert (await direct).status == 200
        for number in (0, 1):
            node.answer(node.all(Run)[number].run)
        last = await edge.run(node, 4)
        assert (last.model_group_key, last.provider_pool) == ("m", True)
        node.answer(last.run)
        assert [a.status for a in await asyncio.gather(*pool)] == [200, 200, 200]
        await node.close()
