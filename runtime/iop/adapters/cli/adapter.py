"""The one CLI adapter of a node: runs the agent of the named target and answers in OpenAI's shapes."""

import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import Literal

from iop.adapters.cli import text
from iop.adapters.cli.shapes import event_stream, whole
from iop.adapters.cli.trees import tree_for
from iop.adapters.contract import AnswerSink, ProbeResult, RunEnd, RunRequest
from iop.domain.effects import Outcome
from iop.domain.errors import BadRequest
from iop.link.messages import CliTarget
from iop.openai import errors
from iop.openai.prompt import prompt_text

_STREAM_HEAD = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))
_JSON_HEAD = (("content-type", "application/json"),)
_COMPLETED = RunEnd(Outcome.COMPLETED)


class CliAdapter:
    """Runs any number of agents at once; `clock` gives Unix seconds, `serial` a new id's random part."""

    name = "cli"
    type: Literal["cli", "openai_compat"] = "cli"
    max_concurrency = 0

    def __init__(
        self,
        targets: Iterable[CliTarget],
        *,
        platform: str = sys.platform,
        clock: Callable[[], float] = time.time,
        serial: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._targets = {target.name: target for target in targets}
        self._tree = tree_for(platform)
        self._clock = clock
        self._serial = serial

    async def run(self, request: RunRequest, sink: AnswerSink) -> RunEnd:
        """Run the target's agent to its end. A failure before any output ends without a head."""
        target = self._targets.get(request.target or "")
        if target is None:
            return _failed(f"this node has no CLI target {request.target!r}")
        if target.kind != "text":
            return _failed(f"kind {target.kind} is not available in this release")
        try:
            prompt = prompt_text(request.body, request.operation)
            limits = text.Limits(silence=request.idle_timeout, total=target.timeout)
            async with aclosing(text.answer(target, prompt, limits, self._tree)) as pieces:
                await self._pass_on(request, pieces, sink)
        except BadRequest as error:
            await sink.head(error.status, errors.headers(error))
            await sink.body(errors.envelope(error))
        except text.AgentFailedError as error:
            return _failed(str(error))
        return _COMPLETED

    async def probe(self) -> ProbeResult:
        """Agents are started when they are asked: there is nothing to ask before."""
        return ProbeResult(up=True)

    async def close(self) -> None:
        """Nothing is held between runs."""

    async def _pass_on(self, request: RunRequest, pieces: AsyncIterator[str], sink: AnswerSink) -> None:
        serial, created = self._serial(), int(self._clock())
        if not request.stream:
            body = whole(request, serial, created, "".join([piece async for piece in pieces]))
            await sink.head(200, _JSON_HEAD)
            await sink.body(body)
            return
        stream = event_stream(request, serial, created)
        opening = stream.start()
        async for piece in pieces:
            if opening:
                await sink.head(200, _STREAM_HEAD)
            await sink.body(opening + stream.delta(piece))
            opening = b""
        if opening:  # an agent may end well without a word
            await sink.head(200, _STREAM_HEAD)
        await sink.body(opening + stream.finish())


def _failed(detail: str) -> RunEnd:
    return RunEnd(Outcome.FAILED, "agent_failed", detail)
