"""One OpenAI-compatible engine behind the adapter contract: bytes as they are, each kind of end by its name."""

import asyncio
import contextlib
import time
from typing import Literal

from iop.adapters.contract import AnswerSink, ProbeResult, RunEnd, RunRequest
from iop.adapters.openai_compat.checks import Check, check_for, failed, is_event_stream
from iop.adapters.openai_compat.decode import Decoder, UndecodableError
from iop.link.messages import EngineInstance
from iop.openai.headers import answer_headers, request_headers
from iop.openai.repair import ResponsesRepair
from iop.transport.engine_http import CONNECT_TIMEOUT, EngineAnswer, EngineError, EngineHttp, basic_auth

#: seconds, from the admission page: an engine that says nothing for so long is down
PROBE_TIMEOUT = 5.0
_PATHS = {"chat.completions": "chat/completions", "responses": "responses"}


class OpenAICompat:
    """The adapter of one configured engine; `api_key` is the key itself, read by the caller from its file."""

    type: Literal["cli", "openai_compat"] = "openai_compat"

    def __init__(
        self,
        instance: EngineInstance,
        *,
        api_key: str | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
        probe_timeout: float = PROBE_TIMEOUT,
    ) -> None:
        self.name = instance.name
        self.max_concurrency = instance.capacity
        self._http = EngineHttp(instance.endpoint, connect_timeout=connect_timeout)
        self._probe_timeout = probe_timeout
        credential = f"Bearer {api_key}" if api_key else basic_auth(instance.endpoint)
        # asked for so that no engine compresses: its bytes pass unchanged and are watched on the way
        self._own_headers = {"accept-encoding": "identity"} | ({"authorization": credential} if credential else {})

    async def run(self, request: RunRequest, sink: AnswerSink) -> RunEnd:
        """Send the request to the engine and pass its answer on, byte for byte and as it comes."""
        headers = {
            **dict(request_headers(request.headers)),
            # the Edge has read the body as JSON, whatever the client called it (curl -d says form data; vLLM refuses)
            "content-type": "application/json",
            "x-request-id": request.request_id,
            **self._own_headers,
        }
        try:
            async with asyncio.timeout(request.timeout):
                path = _PATHS[request.operation]
                answer = await self._http.request("POST", path, tuple(headers.items()), request.body)
        except TimeoutError:
            return failed("timeout", f"no status line within {request.timeout:g} s")
        except EngineError as error:
            return failed(error.failure, error.detail)
        try:
            return await _pass_on(answer, request, sink)
        except EngineError as error:
            return failed(error.failure, error.detail)
        except UndecodableError as error:
            return failed("broken", str(error))
        finally:
            with contextlib.suppress(OSError, RuntimeError, EngineError):  # must not hide how the run ended
                await answer.leave()

    async def probe(self) -> ProbeResult:
        """Ask for the model list; any answer but 5xx means that the engine is up."""
        try:
            async with asyncio.timeout(self._probe_timeout):
                answer = await self._http.request("GET", "models", tuple(self._own_headers.items()))
        except TimeoutError:
            return ProbeResult(up=False, reason=f"no answer within {self._probe_timeout:g} s", silent=True)
        except EngineError as error:
            return ProbeResult(up=False, reason=f"{error.failure}: {error.detail}")
        _close(answer)
        if answer.status >= 500:
            return ProbeResult(up=False, reason=f"status {answer.status}")
        return ProbeResult(up=True)

    async def close(self) -> None:
        """Close every connection to the engine."""
        await self._http.close()


async def _pass_on(answer: EngineAnswer, request: RunRequest, sink: AnswerSink) -> RunEnd:
    decoder = Decoder(answer.codings)
    passage = _Passage(answer, request, sink)
    await sink.head(answer.status, answer_headers(answer.headers))
    while True:
        try:
            async with asyncio.timeout(request.idle_timeout):
                data = await answer.read()
        except TimeoutError:
            return failed("timeout", f"the answer fell silent for {request.idle_timeout:g} s")
        if not data:
            break
        for piece in decoder.feed(data):
            await passage.pass_on(piece)
    if not decoder.finished:
        return failed("broken", "the coded answer ended too early")
    return await passage.end()


class _Passage:
    """The way of the entity bytes to the client: repaired where clients need it, then looked at, then on."""

    def __init__(self, answer: EngineAnswer, request: RunRequest, sink: AnswerSink) -> None:
        is_stream = is_event_stream(answer, stream=request.stream)
        is_repaired = is_stream and request.operation == "responses"
        self._repair = ResponsesRepair(request.body, int(time.time())) if is_repaired else None
        self._check: Check = check_for(answer, request.operation, stream=request.stream)
        self._sink = sink

    async def pass_on(self, data: bytes) -> None:
        await self._give(self._repair.feed(data) if self._repair else data)

    async def end(self) -> RunEnd:
        """Pass on what was held, and return how the run ended."""
        if self._repair:
            await self._give(self._repair.rest())
        return self._check.verdict()

    async def _give(self, data: bytes) -> None:
        if data:
            self._check.feed(data)
            await self._sink.body(data)


def _close(answer: EngineAnswer) -> None:
    """Close an answer; a close that fails must not hide how the run ended."""
    with contextlib.suppress(OSError, RuntimeError, EngineError):
        answer.close()
