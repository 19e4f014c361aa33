"""Rounds in which something is taken away under load, and given back whatever happens. Judging is for others.

Each begins with more clients than slots that send one stream after the other, and goes on until the pool is whole and
full again.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext

from iop.admin.client import AdminClient
from iop.config.inventory import Inventory
from smoke.facts import missing
from smoke.grip import Grip, find
from smoke.stage import Act, Stage, Status

#: clients beyond the slots: somebody always waits
MORE = 3
#: seconds for a node to be gone, or to be back: dead links, restarts and engines' probes included
GONE_S, BACK_S = 90.0, 180.0
#: seconds of a drain lease; it is renewed, and ends by itself when nobody does
LEASE_S = 60.0
#: how many join the line at once until one is refused, and how long a line may at most be
STEP, LONGEST_LINE = 64, 4096


def drained(admin_url: str, token: str, node_id: str) -> Act:
    """Drain a node under load until nothing runs there, then end the drain."""

    async def act(stage: Stage) -> None:
        stage.node = node_id
        with AdminClient(admin_url, token=token) as admin:
            await _without_the_node(stage, _Drain(admin, stage))

    return act


def killed(inventory: Inventory) -> Act:
    """Kill a node's process under load; whoever keeps its services running brings it back."""

    async def act(stage: Stage) -> None:
        grip = await _grip(inventory, stage)
        await _without_the_node(stage, _Kill(grip))

    return act


def cut(inventory: Inventory) -> Act:
    """Hold a node's process still until the Edge takes its link for dead, then let it go on."""

    async def act(stage: Stage) -> None:
        grip = await _grip(inventory, stage)
        await _without_the_node(stage, grip.held())

    return act


async def line_full(stage: Stage) -> None:
    """Fill every slot and then the line, until somebody is refused; then all who wait leave."""
    stage.start(stage.env.capacity, "chat")
    await stage.full(queued=0)
    before = (await stage.look())["totals"]
    waiting, refused = 0, False
    while waiting < LONGEST_LINE and not refused:
        stage.start(STEP, "chat")
        waiting += STEP
        if not await stage.until(lambda status, waiting=waiting: _arrived(status, before, waiting)):  # type: ignore[misc]  # a default is how a lambda keeps a value
            break
        refused = (await stage.look())["totals"]["refused"] > before["refused"]
    for line in stage.lines[stage.env.capacity :]:
        line.leave.set()


async def _without_the_node(stage: Stage, away: AbstractAsyncContextManager[object]) -> None:
    """Keep the pool full, be without the node for a while, and see the pool whole and full again."""
    enough = stage.keep_busy(stage.env.capacity + MORE)
    try:
        if await stage.full(queued=1, within=GONE_S):
            before = _instance(await stage.look(), stage.node)
            async with away:
                await stage.until(lambda status: _gone(status, stage.node, before), GONE_S)
            await stage.until(lambda status: not missing(stage.env, status), BACK_S)
            await stage.full(queued=1, within=BACK_S)
    finally:
        enough.set()


async def _grip(inventory: Inventory, stage: Stage) -> Grip:
    """Found anew in each round: a node that was killed is another process in the next one."""
    grip = await asyncio.to_thread(find, inventory)
    stage.node = grip.node_id
    return grip


class _Drain:
    """A drain lease that is renewed while it is wanted, and ended on every way out."""

    def __init__(self, admin: AdminClient, stage: Stage) -> None:
        self._admin = admin
        self._stage = stage
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._lease()
        self._renewing = self._stage.group.create_task(self._renew())

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        self._admin.undrain(str(self._stage.node))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            await asyncio.to_thread(self._lease)

    def _lease(self) -> None:
        self._admin.drain(str(self._stage.node), lease_s=LEASE_S, by="smoke", reason=self._stage.round_id)


class _Kill(nullcontext[None]):
    """What is killed comes back by itself."""

    def __init__(self, grip: Grip) -> None:
        super().__init__()
        self._grip = grip

    async def __aenter__(self) -> None:
        await asyncio.to_thread(self._grip.kill)


def _gone(status: Status, node_id: str | None, before: str | None) -> bool:
    """Nothing runs there and it takes nothing, or another process is there already."""
    state = next(node["state"] for node in status["nodes"] if node["id"] == node_id)
    held = sum(one["in_flight"] for one in status["provider_snapshots"] if one["node_id"] == node_id)
    return (state != "connected" and held == 0) or _instance(status, node_id) != before


def _instance(status: Status, node_id: str | None) -> str | None:
    return next((node.get("instance_id") for node in status["nodes"] if node["id"] == node_id), None)


def _arrived(status: Status, before: dict[str, int], waiting: int) -> bool:
    """Everybody who was sent into the line is in it, or was refused, or was served in the meantime."""
    totals = status["totals"]
    return bool(totals["received"] - before["received"] >= waiting)
