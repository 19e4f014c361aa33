"""The clients of chaos and soak: chat and responses, streamed or not, short and long; some leave, some read slowly."""

import asyncio
import contextlib
import itertools
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp

from tests.bench.record import Answer, Outcome

KINDS = ("chat", "chat stream", "responses", "responses stream")
PARTS = ("reads",) * 6 + ("slow", "leaves", "leaves", "leaves soon")
#: longer than a request may wait and run, though an Edge is started meanwhile on a busy machine
PATIENCE_S = 180.0

Clock = Callable[[], float]


@dataclass(frozen=True)
class Mix:
    """What the clients ask for. `lengths` in tokens; `pause_s`: the longest between two requests of one client of the
    pool, `direct_pause_s` of an agent, each of whose answers is a process.
    """

    lengths: Sequence[int] = (2, 5, 20, 60, 200)
    pause_s: float = 0.3
    direct_pause_s: float = 2.0
    parts: Sequence[str] = PARTS
    pool_model: str = "pool"
    direct_model: str = "agent"


@dataclass(frozen=True)
class Ask:
    """One request that a client is about to send."""

    request_id: str
    kind: str
    route: Literal["pool", "direct"]
    part: str
    tokens: int
    leaves_after: float  # seconds, for a client that leaves

    @property
    def stream(self) -> bool:
        """True for a streamed answer."""
        return self.kind.endswith("stream")

    @property
    def chat(self) -> bool:
        """True for chat completions."""
        return self.kind.startswith("chat")

    def body(self, mix: Mix) -> dict[str, Any]:
        """The JSON. Its prompt holds the request's id, by which it is known on its way to an engine."""
        said = f"I am {self.request_id}."
        common = {"model": mix.direct_model if self.route == "direct" else mix.pool_model, "stream": self.stream}
        if self.chat:
            return {**common, "messages": [{"role": "user", "content": said}], "max_tokens": self.tokens}
        return {**common, "input": said, "max_output_tokens": self.tokens}


@dataclass
class Seen:
    """What came of one request so far."""

    outcome: Outcome = "refused"
    status: int = 0
    code: str | None = None
    provider: str | None = None
    why: str | None = None
    body: bytearray = field(default_factory=bytearray)


@dataclass
class Load:
    """Clients that ask again and again; `tell` gets each request's end."""

    base_url: str
    seed: int
    clock: Clock
    tell: Callable[[Answer], None]
    mix: Mix = field(default_factory=Mix)
    counts: Counter[str] = field(default_factory=Counter)
    under_way: int = 0
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    limit: int | None = None  # requests; None = until `ending`
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def requests(self) -> int:
        """Finished requests."""
        return self.counts.total()

    @contextlib.asynccontextmanager
    async def running(self, clients: int, direct: int) -> AsyncIterator[None]:
        """So many clients of the pool, and of the agent, while inside; at the end each finishes its last request."""
        async with self.session() as http, asyncio.TaskGroup() as group:
            for number in range(clients + direct):
                dice = random.Random(f"{self.seed}-{number}")
                group.create_task(self._client(http, dice, "pool" if number < clients else "direct"))
            try:
                yield
            finally:
                self.ending.set()

    def session(self) -> aiohttp.ClientSession:
        """Connections that are used anew, without limits of number or time, and without retries of a POST."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None), trust_env=False
        )

    async def _client(self, http: aiohttp.ClientSession, dice: random.Random, route: Literal["pool", "direct"]) -> None:
        while not self.ending.is_set():
            number = next(self._numbers)
            if self.limit is not None and number > self.limit:
                return
            ask = Ask(
                f"chaos-{self.seed}-{number}",
                dice.choice(KINDS),
                route,
                dice.choice(self.mix.parts),
                dice.choice(self.mix.lengths),
                dice.uniform(0, 2.0) if dice.random() < 0.5 else dice.uniform(0, 0.2),
            )
            await self.ask(http, ask)
            longest = self.mix.direct_pause_s if route == "direct" else self.mix.pause_s
            if (pause := dice.uniform(0, longest)) > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.ending.wait(), pause)

    async def ask(self, http: aiohttp.ClientSession, ask: Ask) -> Answer:
        """Send one request, do one's part, and tell what came."""
        began, seen = self.clock(), Seen()
        self.under_way += 1
        patience = ask.leaves_after if ask.part.startswith("leaves") else PATIENCE_S
        try:
            async with asyncio.timeout(patience):
                await self._exchange(http, ask, seen)
        except TimeoutError:
            leaves = ask.part.startswith("leaves")
            seen.outcome = "left" if leaves else "unfinished"
            seen.why = None if leaves else f"no end after {PATIENCE_S:.0f} s"
        except (aiohttp.ClientError, OSError) as error:
            judge_break(ask, seen, error)
        finally:
            self.under_way -= 1
        answer = Answer(
            self.clock(), ask.request_id, ask.kind, ask.route, ask.part, began, seen.outcome, seen.status, seen.code,
            seen.provider, seen.why,
        )  # fmt: skip
        self.counts[seen.outcome] += 1
        self.tell(answer)
        return answer

    async def _exchange(self, http: aiohttp.ClientSession, ask: Ask, seen: Seen) -> None:
        path = "/chat/completions" if ask.chat else "/responses"
        headers = {"x-request-id": ask.request_id}
        async with http.post(self.base_url + path, json=ask.body(self.mix), headers=headers) as response:
            seen.status = response.status
            seen.provider = response.headers.get("x-iop-provider")
            if response.headers.get("x-request-id") != ask.request_id:
                seen.outcome, seen.why = "wrong", f"x-request-id {response.headers.get('x-request-id')!r}"
                return
            async for piece in response.content.iter_any():
                seen.body += piece
                if ask.part == "slow":
                    await _pause(response)
            judge_body(ask, seen)


async def _pause(response: aiohttp.ClientResponse) -> None:
    """Leave what comes in the kernel's buffer for a moment: the other side notices, and nothing is lost here."""
    transport = response.connection.transport if response.connection is not None else None
    if transport is None or transport.is_closing():
        return
    transport.pause_reading()
    try:
        await asyncio.sleep(0.25)
    finally:
        if not transport.is_closing():
            transport.resume_reading()


def judge_break(ask: Ask, seen: Seen, error: Exception) -> None:
    """Say of an exchange that broke off what it is: a stream may have told its error before, or its good end."""
    if ask.stream and seen.status == 200:
        _judge_stream(ask, seen.body.decode("utf-8", "replace"), seen)
    if seen.outcome == "error":
        return
    seen.code = "after the end" if seen.outcome == "answered" else None
    seen.why = f"{type(error).__name__}: {error}"[:300]
    seen.outcome = "cut" if seen.status else "refused"


def judge_body(ask: Ask, seen: Seen) -> None:
    """Say of an answer that came to its end what it is. Nothing of it may be missing, doubled or somebody else's."""
    if seen.status != 200:
        seen.outcome, seen.code, seen.why = _error(bytes(seen.body))
    elif ask.stream:
        _judge_stream(ask, seen.body.decode("utf-8", "replace"), seen)
    else:
        try:
            text, whole = _whole_text(ask, json.loads(seen.body))
        except (ValueError, LookupError, TypeError) as error:
            seen.outcome, seen.why = "wrong", f"{error!r}: {bytes(seen.body[:200])!r}"
        else:
            _judge_text(ask, text, seen, whole=whole)


def _events(body: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream, as far as they are whole."""
    for line in body.splitlines():
        with contextlib.suppress(ValueError):
            if line.startswith("data:") and isinstance(event := json.loads(line[5:]), dict):
                yield event


def _judge_stream(ask: Ask, body: str, seen: Seen) -> None:
    if "\n: iop provider=" in f"\n{body}":
        seen.provider = body.partition(": iop provider=")[2].split()[0]
    text, whole = "", "\ndata: [DONE]" in body
    for event in _events(body):
        if told := _error_of(event):
            seen.outcome, seen.code, seen.why = _error(json.dumps({"error": told}).encode())
            return
        if ask.chat:
            text += "".join(choice["delta"].get("content") or "" for choice in event.get("choices", ()))
        elif event.get("type") == "response.output_text.delta":
            text += event["delta"]
        whole = whole or event.get("type") == "response.completed"
    _judge_text(ask, text, seen, whole=whole)


def _error_of(event: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The error object of a stream's event, of either dialect."""
    if event.get("type") == "response.failed":
        return {"type": "server_error", "param": None, **(event["response"].get("error") or {})}
    if event.get("type") == "error" and "error" not in event:
        return {"message": event.get("message"), "type": "server_error", "param": None, "code": event.get("code")}
    return event.get("error") or None


def _whole_text(ask: Ask, value: Any) -> tuple[str, bool]:
    if ask.chat:
        choice = value["choices"][0]
        return choice["message"]["content"], choice["finish_reason"] in {"length", "stop"}
    text = "".join(part["text"] for item in value["output"] for part in item["content"])
    return text, value["status"] == "completed"


def _judge_text(ask: Ask, text: str, seen: Seen, *, whole: bool) -> None:
    wanted = f"agent: I am {ask.request_id}."
    if ask.route == "pool":
        wanted = " ".join(f"token{number}" for number in range(1, ask.tokens + 1))
    if not whole:
        seen.outcome, seen.why = "wrong", f"an answer that ends well without its end: …{text[-80:]!r}"
    elif text.strip() != wanted:
        seen.outcome, seen.why = "wrong", f"the text is not what was to be said: …{text[-80:]!r}"
    else:
        seen.outcome = "answered"


def _error(body: bytes) -> tuple[Outcome, str | None, str]:
    """What an error answer is: an OpenAI error object with its four fields, or something wrong."""
    shown = body[:300].decode("utf-8", "replace")
    try:
        told = json.loads(body)["error"]
        fields = {name: told[name] for name in ("message", "type", "param", "code")}
    except (ValueError, LookupError, TypeError):
        return "wrong", None, f"not OpenAI's error object: {shown!r}"
    if not fields["message"] or not isinstance(fields["message"], str):
        return "wrong", None, f"an error without a message: {shown!r}"
    code = fields["code"]
    return "error", None if code is None else str(code), fields["message"]
