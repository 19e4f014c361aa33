"""The way of the entity bytes from the engine to the client: decoded, repaired where clients need it, looked at, on."""

import time
from collections.abc import Iterator

from iop.adapters.contract import AnswerSink, RunEnd, RunRequest
from iop.adapters.openai_compat.checks import Check, check_for, failed, is_event_stream
from iop.adapters.openai_compat.decode import Decoder, UndecodableError
from iop.openai.repair import ResponsesRepair
from iop.transport.engine_answer import EngineAnswer


class Passage:
    """Passes one body on: `feed` without waiting, and `catch_up` once `feed` said that it could not take all.

    Raises UndecodableError for a coding that is unknown; for bytes that are not what it says, `catch_up` does.
    """

    def __init__(self, answer: EngineAnswer, request: RunRequest, sink: AnswerSink) -> None:
        self._decoder = Decoder(answer.codings)
        is_stream = is_event_stream(answer, stream=request.stream)
        is_repaired = is_stream and request.operation == "responses"
        self._repair = ResponsesRepair(request.body, int(time.time())) if is_repaired else None
        self._check: Check = check_for(answer, request.operation, stream=request.stream)
        self._sink = sink
        #: what did not go at once, and what is not decoded before that has gone
        self._rest: memoryview | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._fault: UndecodableError | None = None

    def feed(self, data: bytes) -> bool:
        """Pass the engine's next bytes on; False when not all of them went: then `catch_up` is next."""
        self._pieces = self._decoder.feed(data)
        try:
            for piece in self._pieces:
                out = self._looked_at(piece)
                if out and (rest := self._sink.offer(out)) is not None:
                    self._rest = rest
                    return False
        except UndecodableError as error:
            self._fault = error
            return False
        return True

    async def catch_up(self) -> None:
        """Pass on what `feed` could not, at the client's pace."""
        if self._fault is not None:
            raise self._fault
        if self._rest is not None:
            await self._sink.body(bytes(self._rest))
            self._rest = None
        for piece in self._pieces:
            if out := self._looked_at(piece):
                await self._sink.body(out)

    async def end(self) -> RunEnd:
        """The engine has ended its body: pass on what was held, and return how the run ended."""
        if not self._decoder.finished:
            return failed("broken", "the coded answer ended too early")
        if self._repair is not None and (held := self._repair.rest()):
            self._check.feed(held)
            await self._sink.body(held)
        return self._check.verdict()

    def _looked_at(self, piece: bytes) -> bytes:
        out = self._repair.feed(piece) if self._repair is not None else piece
        if out:
            self._check.feed(out)
        return out
