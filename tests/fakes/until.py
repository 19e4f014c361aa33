"""Waiting for a condition, instead of sleeping for a time."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], *, within: float = 20.0) -> None:
    """Return as soon as `condition()` is true; raises TimeoutError after `within` seconds."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - the conditions of tests have no event to wait on
            await asyncio.sleep(0.002)
