"""A steady mixed load by the official OpenAI SDK, and what each of its requests saw."""

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import openai

MODEL = "local-chat"
TOKENS_PER_SECOND = 40  # of the lab's engines
#: answers of a fifth of a second to eight seconds: well below the Edge's drain_timeout of 30 s
LENGTHS = (8, 8, 40, 40, 120, 320)
KINDS = ("chat", "chat stream", "responses", "responses stream")
PAUSE_S = 2.5  # the longest between two requests of one client: connections are used anew at every age below it
TIMEOUT_S = 120.0  # an answer that takes longer has failed
SEED = 4


@dataclass(frozen=True)
class Failure:
    """A request that failed: when the client learned it, what was asked, and what it saw."""

    at: datetime
    request_id: str
    asked: str
    seconds: float
    seen: str

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S.%f} {self.request_id} ({self.asked}) after {self.seconds:.1f} s: {self.seen}"


@dataclass
class Load:
    """Clients that ask again and again. `waits`: seconds that each answer took beyond its tokens on an idle engine."""

    base_url: str
    retries: int = 0
    waits: list[float] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    under_way: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _ending: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def answered(self) -> int:
        """Whole answers so far."""
        return len(self.waits)

    @property
    def requests(self) -> int:
        """Finished requests so far."""
        return self.answered + len(self.failures)

    def wait(self, share: float) -> float:
        """The wait that this share of the answers did not exceed; 0 before the first."""
        return sorted(self.waits)[min(len(self.waits) - 1, int(share * len(self.waits)))] if self.waits else 0.0

    @contextlib.asynccontextmanager
    async def running(self, clients: int) -> AsyncIterator[None]:
        """`clients` requests at once at most while inside; at the end each gets its answer yet.

        Half of the clients share one SDK object and its connections, the others have one each.
        """
        async with contextlib.AsyncExitStack() as open_clients:
            sdks = [
                await open_clients.enter_async_context(
                    openai.AsyncOpenAI(
                        base_url=self.base_url,
                        api_key="none",
                        max_retries=self.retries,
                        timeout=TIMEOUT_S,
                        http_client=openai.DefaultAsyncHttpxClient(trust_env=False),
                    )
                )
                for _ in range(1 + clients // 2)
            ]
            async with asyncio.TaskGroup() as group:
                for number in range(clients):
                    group.create_task(self._client(sdks[min(number, clients // 2)], random.Random(SEED + number)))
                try:
                    yield
                finally:
                    self._ending.set()

    async def _client(self, sdk: openai.AsyncOpenAI, dice: random.Random) -> None:
        while not self._ending.is_set():
            await self._ask(sdk, dice.choice(KINDS), dice.choice(LENGTHS))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), dice.uniform(0, PAUSE_S))

    async def _ask(self, sdk: openai.AsyncOpenAI, kind: str, tokens: int) -> None:
        request_id = f"load-{next(self._numbers)}"
        began = time.monotonic()
        self.under_way += 1
        try:
            count = await _ASKS[kind](sdk, tokens, {"x-request-id": request_id})
            seen = None if count == tokens else f"an answer of {count} tokens instead of {tokens}"
        except (openai.OpenAIError, OSError, ValueError) as error:
            seen = _chain(error)
        finally:
            self.under_way -= 1
        seconds = time.monotonic() - began
        if seen is None:
            self.waits.append(max(0.0, seconds - tokens / TOKENS_PER_SECOND))
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
        else:
            asked = f"{kind}, {tokens} tokens"
            self.failures.append(Failure(datetime.now(UTC), request_id, asked, seconds, seen))


class _NotWhole(ValueError):
    """An answer without its proper end."""


async def _chat(sdk: openai.AsyncOpenAI, tokens: int, headers: dict[str, str]) -> int:
    answer = await sdk.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=tokens, extra_headers=headers
    )
    if answer.choices[0].finish_reason != "length":
        raise _NotWhole(f"not whole: {answer!r}")
    return _count(answer.choices[0].message.content)


async def _chat_stream(sdk: openai.AsyncOpenAI, tokens: int, headers: dict[str, str]) -> int:
    text, last = "", None
    async with await sdk.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=tokens, stream=True, extra_headers=headers
    ) as chunks:
        async for chunk in chunks:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                last = choice.finish_reason or last
    if last != "length":
        raise _NotWhole(f"a stream that ends after {_count(text)} tokens with {last!r}")
    return _count(text)


async def _responses(sdk: openai.AsyncOpenAI, tokens: int, headers: dict[str, str]) -> int:
    answer = await sdk.responses.create(model=MODEL, input="hi", max_output_tokens=tokens, extra_headers=headers)
    if answer.status != "completed":
        raise _NotWhole(f"not whole: {answer!r}")
    return _count(answer.output_text)


async def _responses_stream(sdk: openai.AsyncOpenAI, tokens: int, headers: dict[str, str]) -> int:
    text, last = "", None
    async with await sdk.responses.create(
        model=MODEL, input="hi", max_output_tokens=tokens, stream=True, extra_headers=headers
    ) as events:
        async for event in events:
            last = event.type
            if event.type == "response.output_text.delta":
                text += event.delta
    if last != "response.completed":
        raise _NotWhole(f"a stream that ends after {_count(text)} tokens with {last!r}")
    return _count(text)


_ASKS: dict[str, Any] = {
    "chat": _chat,
    "chat stream": _chat_stream,
    "responses": _responses,
    "responses stream": _responses_stream,
}


def _count(text: str | None) -> int:
    """Tokens of a simulated engine's text."""
    return len((text or "").split())


def _chain(error: BaseException | None) -> str:
    """The error and what it came from."""
    words = []
    while error is not None and len(words) < 5:
        words.append(repr(error))
        error = error.__cause__ or error.__context__
    return " <- ".join(words)
