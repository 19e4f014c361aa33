"""A pool whose slots are taken, so that a client has to wait."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.cluster.harness import Cluster
from tests.cluster.load import PATHS, payload

LONG = 30_000  # tokens: many seconds of work


@contextlib.asynccontextmanager
async def held(pool: Cluster, model: str = "solo") -> AsyncIterator[None]:
    """The model's only slot is taken by a stream that nobody reads, until the block ends."""
    body = payload("chat", tokens=LONG, stream=True, model=model)
    async with pool.client.stream("POST", pool.openai + PATHS["chat"], json=body) as response:
        assert response.status_code == 200
        pieces = response.aiter_bytes()  # kept: dropping it would close the stream
        await anext(pieces)
        yield


@contextlib.asynccontextmanager
async def full(pool: Cluster, model: str = "solo") -> AsyncIterator[None]:
    """The model's only slot is taken, and every place in line."""
    body = payload("chat", tokens=1, stream=False, model=model)
    async with held(pool, model), contextlib.AsyncExitStack() as waiting:
        for _ in range(pool.options["queue"]["max_waiting"]):
            await waiting.enter_async_context(in_background(pool, body))
        await queued(pool, pool.options["queue"]["max_waiting"])
        yield


@contextlib.asynccontextmanager
async def in_background(pool: Cluster, body: dict[str, object]) -> AsyncIterator[None]:
    """A request that is given up when the block ends."""
    task = asyncio.ensure_future(pool.client.post(pool.openai + PATHS["chat"], json=body))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def queued(pool: Cluster, count: int) -> None:
    """Wait until so many wait in line."""
    await pool.status_where(lambda s: s["totals"]["queued"] == count, f"{count} in line")


async def idle(pool: Cluster) -> None:
    """Wait until no slot is taken and nobody waits."""
    await pool.status_where(lambda s: s["totals"]["in_flight"] == s["totals"]["queued"] == 0, "0/0")
