"""One OpenAI-compatible engine behind the adapter contract: bytes as they are, each kind of end by its name."""

import contextlib
from typing import Literal

from iop.adapters.contract import AnswerSink, ProbeResult, RunEnd, RunRequest
from iop.adapters.openai_compat.checks import failed
from iop.adapters.openai_compat.decode import UndecodableError
from iop.adapters.openai_compat.passage import Passage
from iop.link.messages import EngineInstance
from iop.openai.headers import answer_headers, request_headers
from iop.transport.engine_answer import EngineAnswer, EngineError
from iop.transport.engine_http import CONNECT_TIMEOUT, EngineHttp
from iop.transport.engine_url import basic_auth

#: seconds, from the admission page: an engine that says nothing for so long is down
PROBE_TIMEOUT = 5.0
_PATHS = {"chat.completions": "chat/completions", "responses": "responses"}
_TOLD_ANEW = frozenset({"content-type", "x-request-id"})


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
        self._http = EngineHttp(instance.endpoint, connect_timeout=connect_timeout, keep=instance.capacity)
        self._probe_timeout = probe_timeout
        credential = f"Bearer {api_key}" if api_key else basic_auth(instance.endpoint)
        # asked for so that no engine compresses: its bytes pass unchanged and are watched on the way
        self._own_headers = (("accept-encoding", "identity"), *([("authorization", credential)] if credential else ()))

    async def run(self, request: RunRequest, sink: AnswerSink) -> RunEnd:
        """Send the request to the engine and pass its answer on, byte for byte and as it comes."""
        headers = [
            *[header for header in request_headers(request.headers) if header[0] not in _TOLD_ANEW],
            # the Edge has read the body as JSON, whatever the client called it (curl -d says form data; vLLM refuses)
            ("content-type", "application/json"),
            ("x-request-id", request.request_id),
            *self._own_headers,
        ]
        path = _PATHS[request.operation]
        try:
            answer = await self._http.request("POST", path, headers, request.body, within=request.timeout)
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
            # by a connection of its own: whether the engine accepts one is what is asked
            answer = await self._http.request("GET", "models", self._own_headers, within=self._probe_timeout, once=True)
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
    passage = Passage(answer, request, sink)
    await sink.head(answer.status, answer_headers(answer.headers))
    try:
        while await answer.pour(passage.feed, request.idle_timeout):
            await passage.catch_up()
    except TimeoutError:
        return failed("timeout", f"the answer fell silent for {request.idle_timeout:g} s")
    return await passage.end()


def _close(answer: EngineAnswer) -> None:
    """Close an answer; a close that fails must not hide how the run ended."""
    with contextlib.suppress(OSError, RuntimeError, EngineError):
        answer.close()
