"""What happens in a round: who sends what when. Whether it proved anything is decided afterwards, from the records."""

import asyncio

from smoke.client import Endpoint
from smoke.stage import Act, Stage


def burst(endpoint: Endpoint, *, more: int) -> Act:
    """Capacity + `more` streams at once."""

    async def act(stage: Stage) -> None:
        stage.start(stage.env.capacity + more, endpoint)

    return act


def cli_beside(model: str) -> Act:
    """Capacity + 1 streams at once, and a CLI call while every slot is taken and one waits."""

    async def act(stage: Stage) -> None:
        stage.start(stage.env.capacity + 1, "chat")
        await stage.full(queued=1)
        await stage.call_cli(model)

    return act


async def leave_queued(stage: Stage) -> None:
    """Fill every slot, let one more wait, and let its client leave while it waits."""
    stage.start(stage.env.capacity, "chat")
    await stage.full(queued=0)
    [waiter] = stage.start(1, "chat")
    stage.leaver = waiter.ask.request_id
    if await stage.full(queued=1):
        waiter.leave.set()


async def leave_streaming(stage: Stage) -> None:
    """Fill every slot, let one more wait, and let the client of a stream leave in the middle of it."""
    lines = stage.start(stage.env.capacity, "chat")
    await stage.full(queued=0)
    stage.start(1, "chat")
    stage.leaver = lines[0].ask.request_id
    if await stage.full(queued=1):
        await first_of(lines[0].begun, stage.tasks[0])
        lines[0].leave.set()


async def first_of(begun: asyncio.Event, request: "asyncio.Task[object]") -> None:
    """Wait until the answer has begun, or its request has ended without one."""
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(begun.wait())
        await asyncio.wait({waiting, request}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
