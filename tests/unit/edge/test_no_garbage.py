"""What a request leaves behind is gone with its end: the collector comes seldom, and bodies can be large."""

import asyncio
import gc
from collections import Counter

import pytest

from iop.link.messages import End, Head
from tests.fakes.edge_under_test import EdgeUnderTest

HEADERS = {
    "a stream": (("content-type", "text/event-stream"),),
    "a whole answer": (("content-type", "application/json"),),
}


@pytest.mark.parametrize("kind", HEADERS)
async def test_an_answered_request_leaves_no_cycle_of_ours(edge: EdgeUnderTest, kind: str) -> None:
    """With the collector off, no object of iop's own is left in a cycle after ten requests."""
    node = await edge.node()
    for asked in range(1, 11):
        waiting = asyncio.ensure_future(edge.post(body={"model": "m", "stream": kind == "a stream"}))
        run = (await edge.run(node, asked)).run
        node.send(Head(run=run, status=200, headers=HEADERS[kind]))
        node.send_body(run, b"data: [DONE]\n\n")
        node.send(End(run=run, outcome="completed"))
        await (await waiting).read()
        if asked == 5:  # what the first ones leave once for all
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        left = Counter(f"{type(found).__module__}.{type(found).__name__}" for found in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.collect()
    assert {name: count for name, count in left.items() if name.startswith("iop.")} == {}
    await node.close()
