"""Passing an answer on: the engine's status, headers and bytes to the client, and a cut that looks like a cut.

A stream goes out as it comes. Anything else is held until it is whole (up to `HOLD` bytes), so that a cut becomes a
502 instead of half an answer. Nothing is committed before the engine's own status is known, but for a stream that was
opened because its client had waited too long: there an answer that is no stream becomes an error event.
"""

import msgspec
from aiohttp import web

from iop.edge import failures
from iop.edge.client_run import ClientRun
from iop.edge.links import LinkRun
from iop.edge.reply import Reply
from iop.link.messages import End, Head
from iop.openai import headers as allowed
from iop.openai.sse import EVENT_STREAM, can_stream
from iop.openai.watch import begun_response_id, response_id

#: bytes of a non-streamed answer held until it is whole; longer ones pass as they come
HOLD = 1024 * 1024
#: failures after which the engine's answer is nevertheless whole and is the answer
WHOLE = frozenset({"status", "error_event"})


class Relay(msgspec.Struct, frozen=True):
    """How to pass one answer on. `own_headers` tell who gave it."""

    reply: Reply
    work: ClientRun
    own_headers: dict[str, str]

    async def answer(self, run: LinkRun, head: Head) -> web.StreamResponse:
        """Relay the whole answer. Raises the IopError of a cut while nothing of it was sent; ConnectionError when the
        client is gone or does not read.
        """
        is_stream = can_stream(head.status) and _content_type(head).startswith(EVENT_STREAM)
        if self.reply.opened and (head.status >= 400 or not is_stream):
            return await self._late(run, head)
        if is_stream:
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
            raise self.work.error(end)
        body = b"".join(parts)
        if self.reply.call.operation == "responses" and head.status < 300:
            self.note(response_id(body))
        return self.reply.whole(head.status, _passed(head), self.own_headers, body)

    async def _long(self, run: LinkRun, head: Head, begun: bytes) -> web.StreamResponse:
        if self.reply.call.operation == "responses" and head.status < 300:
            self.note(begun_response_id(begun))
        await self.reply.begin(head.status, _passed(head), self.own_headers)
        await self.reply.write(begun)
        while (piece := await run.read()) is not None:
            await self.reply.write(piece)
        return await self.reply.finish() if _is_whole(_end_of(run)) else self.reply.cut()

    async def _stream(self, run: LinkRun, head: Head) -> web.StreamResponse:
        await self.reply.begin(head.status, _passed(head), self.own_headers)
        run.pour(_Pouring(self, run).take)
        self.reply.flush()
        end = await run.done()
        if end.outcome == "completed" or self.work.is_whole:
            return await self.reply.finish()
        return await self.reply.fail(self.work.error(end), is_end=_is_whole(end))

    async def _late(self, run: LinkRun, head: Head) -> web.StreamResponse:
        """An answer that is no stream, in a stream that is open: the engine's own error as an event."""
        told = bytearray()
        while (piece := await run.read()) is not None:
            told += piece[: HOLD - len(told)]
        end = _end_of(run)
        if not _is_whole(end):
            raise self.work.error(end)
        await self.reply.begin(head.status, _passed(head), self.own_headers)
        error = failures.late_answer(head.status, _content_type(head), bytes(told), self.work.who)
        return await self.reply.fail(error, is_end=isinstance(error, failures.EngineError))

    def note(self, made: str | None) -> None:
        """Keep who made a response of this id, if one is known."""
        if made is not None:
            self.work.made(made)


class _Pouring:
    """One stream on its way from the link to its client, each piece in the turn in which it comes."""

    __slots__ = ("_relay", "_run")

    def __init__(self, relay: Relay, run: LinkRun) -> None:
        self._relay = relay
        self._run = run

    def take(self, data: bytes) -> bool:
        """Send a piece; False while the client is behind, which it may be for `stream.write_timeout`."""
        reply = self._relay.reply
        if reply.is_cut:  # whoever serves this client is told, too
            return True
        if reply.is_behind:
            reply.when_caught_up(self._go_on)
            return False
        self._relay.note(reply.see(data))  # before the client has it, which may go on with this response at once
        reply.push(data)
        if reply.ending is not None:
            self._relay.work.told_end(well=reply.ending)
        return True

    def _go_on(self) -> None:
        self._run.pour(self.take)


def _passed(head: Head) -> dict[str, str]:
    return dict(allowed.passed_headers(head.headers))


def _content_type(head: Head) -> str:
    return next((value.strip().lower() for name, value in head.headers if name.lower() == "content-type"), "")


def _end_of(run: LinkRun) -> End:
    return run.end or End(run=run.run, outcome="failed", failure="broken")


def _is_whole(end: End) -> bool:
    return end.outcome == "completed" or end.failure in WHOLE
