"""What a running round offers to what happens in it: requests to send, the status to see, conditions to wait for."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from smoke.client import Ask, Client, Endpoint, Line
from smoke.history import Environment, Request

#: seconds between two looks of somebody who waits for something
LOOK_S = 0.025
#: seconds before a client that was refused or cut asks again
AGAIN_S = 0.2

Status = dict[str, Any]


@dataclass(slots=True)
class Stage:
    """One round under way. What it collects becomes the round's record."""

    case: str
    round_id: str
    tokens: int
    env: Environment
    client: Client
    group: asyncio.TaskGroup
    look: Callable[[], Coroutine[Any, Any, Status]]
    lines: list[Line] = field(default_factory=list)
    tasks: list[asyncio.Task[Request]] = field(default_factory=list)
    leaver: str | None = None
    cli_id: str | None = None
    node: str | None = None  # the node that is taken away
    _clients: list[asyncio.Task[None]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def start(self, number: int, endpoint: Endpoint) -> list[Line]:
        """Start `number` streams at once."""
        lines = [Line(self._ask(endpoint, self.env.smoke_model, self.tokens)) for _ in range(number)]
        self.lines += lines
        self.tasks += [self.group.create_task(self.client.send(line)) for line in lines]
        return lines

    def call_cli(self, model: str) -> asyncio.Task[Request]:
        """Start one call of a CLI model, not streamed."""
        line = Line(self._ask("chat", model, None, stream=False, content="Say hello."))
        self.cli_id = line.ask.request_id
        task = self.group.create_task(self.client.send(line))
        self.tasks.append(task)
        return task

    def keep_busy(self, clients: int) -> asyncio.Event:
        """Start clients that send one stream after the other until the event that is returned is set."""
        enough = asyncio.Event()
        self._clients += [self.group.create_task(self._one_after_the_other(enough)) for _ in range(clients)]
        return enough

    async def until(self, what: Callable[[Status], bool], within: float | None = None) -> bool:
        """Wait until a status satisfies `what`; False when all requests ended before that, or `within` seconds passed.

        Clients that are kept busy have not ended.
        """
        loop = asyncio.get_running_loop()
        end = None if within is None else loop.time() + within
        while True:
            ended = all(task.done() for task in (*self.tasks, *self._clients))
            if what(await self.look()):
                return True
            if ended or (end is not None and loop.time() > end):
                return False
            await asyncio.sleep(LOOK_S)

    async def full(self, queued: int, within: float | None = None) -> bool:
        """Wait until every slot is taken and `queued` wait; False when that did not come, as `until`."""
        total = self.env.capacity
        return await self.until(lambda s: s["totals"]["in_flight"] >= total and s["totals"]["queued"] >= queued, within)

    async def _one_after_the_other(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            self.start(1, "chat")
            request = await self.tasks[-1]
            if request.outcome != "ok":
                await asyncio.sleep(AGAIN_S)

    def _ask(self, endpoint: Endpoint, model: str, tokens: int | None, **more: Any) -> Ask:  # noqa: ANN401 - Ask's own
        request_id = f"{self.round_id}-{next(self._numbers)}"
        return Ask(self.case, request_id, endpoint, model, tokens, round_id=self.round_id, **more)


Act = Callable[[Stage], Coroutine[Any, Any, None]]
