"""Passing an answer on: the engine's status, headers and bytes to the client, and a cut that looks like a cut.

A stream goes out as it comes. Anything else is held until it is whole (up to `HOLD` bytes), so that a cut becomes a
502 instead of half an answer. Nothing is committed before the engine's own status is known.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from iop.domain.errors import IopError
from iop.edge.links import LinkRun
from iop.link.messages import End, Head
from iop.openai import headers as allowed
from iop.openai.paths import Operation
from iop.openai.watch import StreamWatch
from iop.transport.http_border import request_id

#: bytes of a non-streamed answer held until it is whole; longer ones pass as they come
HOLD = 1024 * 1024
#: failures after which the engine's answer is nevertheless whole and is the answer
WHOLE = frozenset({"status", "error_event"})


@dataclass(frozen=True, slots=True)
class Relay:
    """How to pass one answer on. `write_timeout` in seconds cuts a client that does not read."""

    request: web.Request
    operation: Operation
    model: str
    own_headers: dict[str, str]
    write_timeout: float
    to_error: Callable[[End], IopError]

    async def answer(self, run: LinkRun, head: Head) -> web.StreamResponse:
        """Relay the whole answer. Raises the IopError of a cut while nothing was sent; ConnectionError when the client
        is gone or does not read.
        """
        if _content_type(head).startswith("text/event-stream"):
            return await self._stream(run, head)
        return await self._whole(run, head)

    async def _whole(self, run: LinkRun, head: Head) -> web.StreamResponse:
        parts: list[bytes] = []
        held = 0
        while (piece := await run.read()) is not None:
            parts.append(piece)
            held += len(piece)
            if held > HOLD:
                return await self._long(run, head, b"".join(parts))
        end = _end_of(run)
        if not _is_whole(end):
            raise self.to_error(end)
        return web.Response(status=head.status, body=b"".join(parts), headers=self._headers(head))

    async def _long(self, run: LinkRun, head: Head, begun: bytes) -> web.StreamResponse:
        response = await self._begin(head)
        await self._write(response, begun)
        while (piece := await run.read()) is not None:
            await self._write(response, piece)
        if not _is_whole(_end_of(run)):
            return self._cut(response)
        await response.write_eof()
        return response

    async def _stream(self, run: LinkRun, head: Head) -> web.StreamResponse:
        response = await self._begin(head)
        watch = StreamWatch(
            self.operation, request_id=request_id(self.request), model=self.model, created=int(time.time())
        )
        while (piece := await run.read()) is not None:
            watch.feed(piece)
            await self._write(response, piece)
        end = _end_of(run)
        if end.outcome == "completed":
            await response.write_eof()
            return response
        if ending := watch.ending(self.to_error(end)):
            await self._write(response, ending)
        if end.failure in WHOLE:
            await response.write_eof()
            return response
        return self._cut(response)

    async def _begin(self, head: Head) -> web.StreamResponse:
        response = web.StreamResponse(status=head.status, headers=self._headers(head))
        await self._bounded(response.prepare(self.request))
        return response

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        await self._bounded(response.write(data))

    async def _bounded(self, work: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(self.write_timeout):
                await work
        except TimeoutError:
            self._abort()
            raise ConnectionResetError("the client did not read for stream.write_timeout") from None

    def _cut(self, response: web.StreamResponse) -> web.StreamResponse:
        """End the connection without the closing chunk, so that the client sees a cut, once what was written is out."""
        if self.request.transport is not None:
            self.request.transport.close()
        return response

    def _abort(self) -> None:
        if self.request.transport is not None:
            self.request.transport.abort()

    def _headers(self, head: Head) -> dict[str, str]:
        passed = dict(allowed.answer_headers(head.headers))
        return {**passed, **self.own_headers, "x-request-id": request_id(self.request)}


def _content_type(head: Head) -> str:
    return next((value.strip().lower() for name, value in head.headers if name.lower() == "content-type"), "")


def _end_of(run: LinkRun) -> End:
    return run.end or End(run=run.run, outcome="failed", failure="broken")


def _is_whole(end: End) -> bool:
    return end.outcome == "completed" or end.failure in WHOLE
