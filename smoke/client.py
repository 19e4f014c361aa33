"""Requests as a client sends them, each ending in one frozen record; failures are records too, not exceptions."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from smoke.history import Request, now

Endpoint = Literal["chat", "responses"]
PATHS: dict[str, str] = {"chat": "/chat/completions", "responses": "/responses"}
#: seconds without a byte after which a request counts as failed: above the Edge's own `engine.answer_timeout` (900 s)
SILENCE_S = 960.0
#: characters of an answer kept in the history
KEPT_TEXT = 200


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to send."""

    case: str
    request_id: str
    endpoint: Endpoint
    model: str
    max_tokens: int | None
    stream: bool = True
    content: str = "Count upwards from one, in words, without stopping: one, two, three,"
    round_id: str | None = None

    def body(self) -> dict[str, Any]:
        """The JSON of the request."""
        body: dict[str, Any] = {"model": self.model, "stream": self.stream}
        if self.endpoint == "chat":
            body["messages"] = [{"role": "user", "content": self.content}]
            limit = "max_tokens"
        else:
            body["input"] = self.content
            limit = "max_output_tokens"
        return body if self.max_tokens is None else body | {limit: self.max_tokens}


@dataclass(slots=True)
class Line:
    """A request under way: `begun` is set at the first piece of the answer, setting `leave` makes the client go."""

    ask: Ask
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    leave: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class _Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""
    error: str | None = None
    code: str | None = None
    whole: bool = False


class Client:
    """The OpenAI API of one Edge; as many connections as there are requests."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def send(self, line: Line) -> Request:
        """Send the request and read its whole answer, or leave when told to."""
        loop = asyncio.get_running_loop()
        started, answer, left = loop.time(), _Answer(), False
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work(line, answer))
            leave = group.create_task(line.leave.wait())
            await asyncio.wait({work, leave}, return_when=asyncio.FIRST_COMPLETED)
            left = not work.done()
            work.cancel()
            leave.cancel()
        return _record(line.ask, answer, loop.time() - started, left=left)

    async def _work(self, line: Line, answer: _Answer) -> None:
        ask = line.ask
        headers = {"x-request-id": ask.request_id}
        try:
            async with self._http.stream("POST", PATHS[ask.endpoint], json=ask.body(), headers=headers) as response:
                answer.status, answer.headers = response.status_code, dict(response.headers)
                if ask.stream and response.headers.get("content-type", "").startswith("text/event-stream"):
                    async for text in response.aiter_lines():
                        read_line(text, answer)
                        if answer.text:
                            line.begun.set()
                else:
                    read_whole(await response.aread(), answer)
        except httpx.HTTPError as error:
            answer.error = answer.error or f"{type(error).__name__}: {error}"  # what the stream told says more


def read_line(line: str, answer: _Answer) -> None:
    """Take one line of an event stream of either endpoint into the answer."""
    if not line.startswith("data:"):
        return
    data = line[5:].strip()
    if data == "[DONE]":
        answer.whole = True
        return
    try:
        event = json.loads(data)
    except ValueError:
        answer.error = answer.error or f"a data line is no JSON: {data[:KEPT_TEXT]}"
        return
    if not isinstance(event, dict):
        return
    kind = event.get("type")
    if kind in ("response.completed", "response.incomplete"):
        answer.whole = True
    elif kind in ("response.failed", "error") or event.get("error"):
        answer.error = answer.error or data[:KEPT_TEXT]
        answer.code = answer.code or _code(event)
    elif kind == "response.output_text.delta":
        answer.text += str(event.get("delta") or "")
    for choice in event.get("choices") or ():
        answer.text += _words(choice.get("delta") or {})


def read_whole(body: bytes, answer: _Answer) -> None:
    """Take the body of an answer that is not streamed into the answer."""
    try:
        data = json.loads(body)
    except ValueError:
        answer.error = f"the answer is no JSON: {body[:KEPT_TEXT]!r}"
        return
    if answer.status != 200 or not isinstance(data, dict) or data.get("error"):
        answer.error = f"HTTP {answer.status}: {json.dumps(data)[:KEPT_TEXT]}"
        answer.code = _code(data) if isinstance(data, dict) else None
        return
    answer.whole = True
    answer.text = "".join(_words(choice.get("message") or {}) for choice in data.get("choices") or ())
    for item in data.get("output") or ():
        answer.text += "".join(str(part.get("text") or "") for part in item.get("content") or ())


@asynccontextmanager
async def connect(base_url: str, key: str | None = None) -> AsyncIterator[Client]:
    """Open a client of an OpenAI base URL that shows this API key. Proxy settings of the environment are ignored."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    timeout = httpx.Timeout(SILENCE_S, connect=30.0)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(
        base_url=base_url, headers=headers, trust_env=False, timeout=timeout, limits=limits
    ) as http:
        yield Client(http)


def _words(message: dict[str, Any]) -> str:
    """The text of a message or delta; a reasoning model may think before it speaks."""
    return str(message.get("content") or message.get("reasoning_content") or "")


def _code(told: dict[str, Any]) -> str | None:
    """The code of an error object, of an error event of either endpoint, or of a response that failed."""
    response = told.get("response")
    inside = told.get("error") or (response.get("error") if isinstance(response, dict) else None)
    code = inside.get("code") if isinstance(inside, dict) else told.get("code")
    return str(code) if code is not None else None


def _record(ask: Ask, answer: _Answer, seconds: float, *, left: bool) -> Request:
    error = answer.error
    if error is None and not left:
        if answer.status != 200:
            error = f"HTTP {answer.status}"
        elif not answer.whole:
            error = "the answer ended without its last event"
    queue = answer.headers.get("x-iop-queue-ms", "")
    return Request(
        at=now(),
        case=ask.case,
        round_id=ask.round_id,
        request_id=ask.request_id,
        endpoint=ask.endpoint,
        stream=ask.stream,
        outcome="left" if left else "failed" if error else "ok",
        status=answer.status,
        error=None if left else error,
        provider=answer.headers.get("x-iop-provider"),
        node=answer.headers.get("x-iop-node"),
        queue_ms=int(queue) if queue.isdecimal() else None,
        seconds=round(seconds, 3),
        text=answer.text[:KEPT_TEXT],
        code=answer.code,
        retry_after=answer.headers.get("retry-after"),
    )
