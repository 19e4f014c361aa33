"""The one CLI adapter of a node: runs the agent of the named target and answers in OpenAI's shapes."""

import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import Literal

import msgspec

from iop.adapters.cli import codex_app_server, codex_exec, text
from iop.adapters.cli.agent import AgentFailedError, Answering, Limits, Said
from iop.adapters.cli.readiness import Readiness, Verdict
from iop.adapters.cli.shapes import Spoken, event_stream, whole
from iop.adapters.cli.trees import tree_for
from iop.adapters.contract import AnswerSink, ProbeResult, RunEnd, RunRequest
from iop.domain.effects import Outcome
from iop.domain.errors import BadRequest
from iop.link.messages import CliTarget, TargetInfo
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
        self._platform = platform
        self._readiness = Readiness(self._targets.values(), platform)
        self._clock = clock
        self._serial = serial

    async def run(self, request: RunRequest, sink: AnswerSink) -> RunEnd:
        """Run the target's agent to its end. A failure before any output ends without a head."""
        target = self._targets.get(request.target or "")
        if target is None:
            return _failed(f"this node has no CLI target {request.target!r}")
        try:
            prompt = prompt_text(request.body, request.operation)
        except BadRequest as error:
            await sink.head(error.status, errors.headers(error))
            await sink.body(errors.envelope(error))
            return _COMPLETED
        verdict = await self._readiness.verdict(target)
        if not verdict.ready:
            return _failed(f"the agent {target.name} is not ready: {verdict.reason}")
        try:
            async with aclosing(self._answering(target, verdict, prompt, request)) as said:
                await self._pass_on(request, said, sink)
        except AgentFailedError as error:
            self._readiness.doubt(target.name)
            return _failed(str(error))
        return _COMPLETED

    def targets(self) -> tuple[TargetInfo, ...]:
        """Return each target with whether it is ready."""
        return self._readiness.infos()

    async def look(self) -> None:
        """Look at the targets that are not known to be ready."""
        await self._readiness.round()

    async def probe(self) -> ProbeResult:
        """Agents are started when they are asked: there is nothing to ask before."""
        return ProbeResult(up=True)

    async def close(self) -> None:
        """Nothing is held between runs."""

    def _answering(self, target: CliTarget, verdict: Verdict, prompt: str, request: RunRequest) -> Answering:
        found = msgspec.structs.replace(target, command=verdict.command)
        limits = Limits(silence=request.idle_timeout, total=target.timeout)
        tree = tree_for(self._platform)
        if verdict.codex is None:
            return text.answer(found, prompt, limits, tree)
        if verdict.codex.app_server:
            return codex_app_server.answer(found, prompt, limits, tree)
        return codex_exec.answer(found, prompt, limits, tree)

    async def _pass_on(self, request: RunRequest, answering: AsyncIterator[Said], sink: AnswerSink) -> None:
        serial, created = self._serial(), int(self._clock())
        spoken = Spoken()
        if not request.stream:
            async for said in answering:
                spoken.add(said)
            body = whole(request, serial, created, spoken)
            await sink.head(200, _JSON_HEAD)
            await sink.body(body)
            return
        stream = event_stream(request, serial, created)
        opening = stream.start()
        async for said in answering:
            piece = spoken.add(said)
            if piece:
                if opening:
                    await sink.head(200, _STREAM_HEAD)
                await sink.body(opening + stream.delta(piece))
                opening = b""
        if opening:  # an agent may end well without a word
            await sink.head(200, _STREAM_HEAD)
        await sink.body(opening + stream.finish(usage=spoken.usage))


def _failed(detail: str) -> RunEnd:
    return RunEnd(Outcome.FAILED, "agent_failed", detail)
