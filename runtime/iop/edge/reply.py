"""The client's side of one call: one response, begun with the engine's answer or, for a stream that waits long, before.

A streaming client that has waited `stream.keepalive_after` gets 200 and a comment, and another one each time that long
again, until its answer begins. Whatever goes wrong from then on is told as an error event.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from aiohttp import web

from iop.config.models import Stream
from iop.domain.errors import IopError
from iop.edge.call import Call
from iop.edge.journal import entry_of
from iop.openai.sse import comment
from iop.openai.watch import StreamWatch
from iop.transport.http_answer import Answer
from iop.transport.http_border import request_id

T = TypeVar("T")


class Reply:
    """The one response of a call. Its clock starts now, when the request has come in whole.

    Writing raises ConnectionError when the client is gone, or has not read for `stream.write_timeout`.
    """

    def __init__(self, call: Call, settings: Stream) -> None:
        self.call = call
        self.entry = entry_of(call.http)
        self._settings = settings
        self._clock = asyncio.get_running_loop().time
        self._due = self._clock() + settings.keepalive_after if call.parsed.stream else None
        self._kept_alive_at = 0.0
        self._response: Answer | None = None
        self._request_id = request_id(call.http)
        self._watching: StreamWatch | None = None

    @property
    def _watch(self) -> StreamWatch:
        if self._watching is None:
            call = self.call
            self._watching = StreamWatch(
                call.operation, request_id=self._request_id, model=call.parsed.model, created=int(time.time())
            )
        return self._watching

    @property
    def ending(self) -> bool | None:
        """Whether the stream's own end, if it was seen, is that of a good answer; None before that end."""
        return not self._watch.error if self._watch.terminal else None

    @property
    def opened(self) -> bool:
        """True once a status and headers are out."""
        return self._response is not None

    async def complete(self, answer: Awaitable[web.StreamResponse]) -> web.StreamResponse:
        """Return what `answer` makes of this reply. An IopError passes while nothing is out, else it is an event."""
        try:
            return await answer
        except IopError as error:
            if not self.opened:
                raise
            return await self.fail(error)

    async def during(self, wait: Callable[[], Awaitable[T]]) -> T:
        """Await `wait()` and keep the client's connection alive meanwhile; `wait` must bear to be broken off and
        called again.
        """
        if self._due is None:
            return await wait()
        while True:
            try:
                async with asyncio.timeout_at(self._due) as limit:
                    return await wait()
            except TimeoutError:
                if not limit.expired():
                    raise
            await self._keep_alive()

    def headers(self, passed: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of an answer: the engine's that may pass, and our own, which win."""
        return {**passed, **own, "x-request-id": self._request_id}

    async def begin(self, status: int, passed: Mapping[str, str], own: Mapping[str, str]) -> None:
        """The answer begins: with the engine's status and headers; in a stream that is open already, with a comment
        that tells what `own` would have told. The request's body counts no longer.
        """
        self.call.hold.release()
        self.entry.answered()
        if self._response is None:
            self._open(status, self.headers(passed, own))
        elif own:
            words = (f"{name.removeprefix('x-iop-').replace('-', '_')}={value}" for name, value in own.items())
            await self.write(comment(f"iop {' '.join(words)}"))

    async def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.push(data)
        assert self._response is not None
        if self._response.is_behind:
            await self._bounded(self._response.caught_up())

    @property
    def is_behind(self) -> bool:
        """True while the client reads more slowly than the answer comes."""
        return self._response is not None and self._response.is_behind

    @property
    def is_cut(self) -> bool:
        """True when the client is gone."""
        return self._response is None or self._response.is_cut

    def push(self, data: bytes) -> None:
        """Send bytes as they are, without waiting."""
        assert self._response is not None
        self.entry.bytes_out += len(data)
        self._response.push(data)

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the client, which is behind, has caught up. It has `stream.write_timeout` for that."""
        assert self._response is not None
        deadline = asyncio.get_running_loop().call_later(self._settings.write_timeout, self._hang_up)

        def caught_up() -> None:
            deadline.cancel()
            callback()

        self._response.when_caught_up(caught_up)

    def see(self, data: bytes) -> str | None:
        """Watch bytes of a stream that are about to be sent. Return the id of its response, as soon as it is known."""
        self._watch.feed(data)
        return self._watch.response_id

    async def fail(self, error: IopError, *, is_end: bool = False) -> web.StreamResponse:
        """Tell `error` in the stream, unless that has told its own end; then cut it. `is_end`: the engine itself
        ended so, and the transfer ends properly.

        A Responses stream always ends properly, as its last event tells how it ended: Codex shows `response.failed`
        only then, and on a cut nothing but the transport's own error.
        """
        self.entry.error = None if is_end else error.code
        if ending := self._watch.ending(error):
            await self.write(ending)
        has_terminal_event = self.call.operation == "responses"
        return await self.finish() if is_end or has_terminal_event else self.cut()

    def whole(self, status: int, passed: Mapping[str, str], own: Mapping[str, str], body: bytes) -> web.StreamResponse:
        """Return an answer that is there as a whole."""
        self.entry.answered()
        self.entry.bytes_out = len(body)
        return Answer(self.call.http, status, self.headers(passed, own), whole=body)

    def flush(self) -> None:
        """Send the head of the answer if nothing of it is out yet."""
        assert self._response is not None
        self._response.flush()

    async def finish(self) -> web.StreamResponse:
        """End the answer as a whole one."""
        assert self._response is not None
        await self._response.write_eof()
        return self._response

    def cut(self) -> web.StreamResponse:
        """End the connection without the closing chunk, so that the client sees a cut, once what was written is out."""
        assert self._response is not None
        if self.call.http.transport is not None:
            self.call.http.transport.close()
        return self._response

    def _open(self, status: int, headers: Mapping[str, str]) -> None:
        self._response = Answer(self.call.http, status, headers)
        self.entry.status = status

    async def _keep_alive(self) -> None:
        """Send a comment, or cut a client that has left the last one unread for `stream.write_timeout`.

        Comments are too few to ever fill a buffer that a write would wait for; and nothing may wait here: the slot
        that was waited for may come meanwhile.
        """
        now = self._clock()
        if self._response is None:
            self._open(200, self.headers({"content-type": "text/event-stream"}, {}))
        elif self._is_unread():
            if now >= self._kept_alive_at + self._settings.write_timeout:
                self._abort()
            self._due = min(now + self._settings.keepalive_after, self._kept_alive_at + self._settings.write_timeout)
            return
        await self.write(comment("keep-alive"))
        self._kept_alive_at = now
        self._due = now + self._settings.keepalive_after

    def _is_unread(self) -> bool:
        transport = self.call.http.transport
        return transport is not None and transport.get_write_buffer_size() > 0

    async def _bounded(self, work: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(self._settings.write_timeout):
                await work
        except TimeoutError:
            self._abort()

    def _hang_up(self) -> None:
        if self.call.http.transport is not None:
            self.call.http.transport.abort()

    def _abort(self) -> None:
        self._hang_up()
        raise ConnectionResetError("the client did not read for stream.write_timeout")
