"""A steady mixed load on a stack: clients that ask again and again until told to stop, and what they got."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.fakes.stack import RESPONSES, Stack, chat, encoded
from tests.fakes.until import until

#: the key that every client sends, whether the Edge has keys or not
KEY = "test-key"
STREAM, WHOLE, RESPONSE = "stream", "whole", "response"


@dataclass
class MixedLoad:
    """`got[model]` holds one entry per answer: its status, or what was wrong with a 200."""

    stack: Stack
    got: dict[str, list[int | str]] = field(default_factory=lambda: defaultdict(list))
    stopping: set[str] = field(default_factory=set)

    async def client(self, model: str, *kinds: str) -> None:
        """Ask for the model in these ways, in turn."""
        number = 0
        while model not in self.stopping:
            self.got[model].append(await self._ask(model, kinds[number % len(kinds)]))
            number += 1

    async def _ask(self, model: str, kind: str) -> int | str:
        header = f"Authorization: Bearer {KEY}"
        if kind == RESPONSE:
            answer = await self.stack.post(encoded({"model": model, "input": "hi"}), RESPONSES, header)
        else:
            answer = await self.stack.post(chat(model=model, stream=kind == STREAM), "/v1/chat/completions", header)
        if answer.status != 200:
            return answer.status
        if answer.cut or (kind == STREAM and b"[DONE]" not in answer.body):
            return f"cut: {answer.body[-200:]!r}"
        return 200

    async def moves_on(self, *models: str) -> None:
        """Wait until each of these models had two more answers: one may have begun before, the next did not."""
        before = {model: len(self.got[model]) for model in models}
        await until(lambda: all(len(self.got[model]) >= before[model] + 2 for model in models))

    def bad(self) -> dict[str, list[int | str]]:
        """Answers that were no whole success, by model."""
        found = {model: [one for one in answers if one != 200] for model, answers in self.got.items()}
        return {model: answers for model, answers in found.items() if answers}


@contextlib.asynccontextmanager
async def mixed_load(stack: Stack, clients: dict[str, list[tuple[str, ...]]]) -> AsyncIterator[MixedLoad]:
    """Run clients (model -> the kinds of each of its clients) for as long as the block lasts."""
    load = MixedLoad(stack)
    async with asyncio.TaskGroup() as group:
        for model, each in clients.items():
            for kinds in each:
                group.create_task(load.client(model, *kinds))
        try:
            yield load
        finally:
            load.stopping.update(clients)
