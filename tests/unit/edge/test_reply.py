"""One reply of one call: opened early for streams that wait, and what can still be told then."""

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from iop.config.models import Stream
from iop.domain.errors import Unavailable
from iop.edge.call import read_call
from iop.edge.reply import Reply
from iop.edge.stock import BodyStock
from iop.transport.http_border import error_middleware
from iop.transport.http_server import listen
from tests.fakes.raw import request as encode
from tests.fakes.raw_client import Answer, RawClient
from tests.fakes.until import until

Script = Callable[[Reply], Awaitable[web.StreamResponse]]
STREAM = b'{"model": "m", "stream": true}'
WHOLE = b'{"model": "m"}'
SOON = Stream(keepalive_after="10ms")
OWN = {"x-iop-provider": "p1", "x-iop-queue-ms": "7"}


class Served:
    """A server whose one handler completes a reply by `script`; the client of the test."""

    def __init__(self, script: Script, settings: Stream) -> None:
        self.stock = BodyStock()
        self.ended: list[BaseException | None] = []
        self._script = script
        self._settings = settings

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            with self.stock.open(1000) as hold:
                reply = Reply(
                    await read_call(request, "chat.completions", hold, max_body=1000, silence=20.0), self._settings
                )
                response = await reply.complete(self._script(reply))
        except BaseException as error:
            self.ended.append(error)
            raise
        self.ended.append(None)
        return response


async def _with(
    script: Script, use: Callable[[RawClient], Awaitable[object]], *, body: bytes = STREAM, settings: Stream = SOON
) -> Served:
    served = Served(script, settings)
    app = web.Application(middlewares=[error_middleware])
    app.router.add_post("/", served.handle)
    listener = await listen(app, "127.0.0.1", 0)
    client = await RawClient.connect((listener.host, listener.port), receive_buffer=4096)
    try:
        await client.send(encode("/", body))
        await use(client)
        await until(lambda: served.ended)
    finally:
        client.reset()
        await listener.close()
    assert served.stock.held == 0
    return served


async def _answer_of(script: Script, *, body: bytes = STREAM) -> Answer:
    found: list[Answer] = []

    async def use(client: RawClient) -> None:
        found.append(await client.answer())

    await _with(script, use, body=body)
    return found[0]


def _a_while(comments: int = 2) -> Callable[[], Awaitable[str]]:
    """A wait that is broken off for so many comments, in a stream."""
    waits = iter([0.03] * comments + [0.0])

    async def wait() -> str:
        await asyncio.sleep(next(waits))
        return "lease"

    return wait


async def test_a_stream_that_waits_is_opened_and_says_who_answers_in_a_comment() -> None:
    """A wait that is broken off for comments is begun anew and its result returned."""

    async def script(reply: Reply) -> web.StreamResponse:
        assert await reply.during(_a_while(2)) == "lease"
        await reply.begin(200, {"x-ratelimit-limit": "5"}, OWN)
        reply.see(b"data: [DONE]\n\n")
        await reply.write(b"data: [DONE]\n\n")
        return await reply.finish()

    answer = await _answer_of(script)
    assert answer.body == b": keep-alive\n" * 2 + b": iop provider=p1 queue_ms=7\ndata: [DONE]\n\n"
    assert (answer.status, answer.headers["content-type"], answer.cut) == (200, "text/event-stream", False)
    assert "x-ratelimit-limit" not in answer.headers


async def test_a_whole_answer_is_never_opened_early() -> None:
    """Without `stream` the wait is left alone, and an error has its real status."""

    async def script(reply: Reply) -> web.StreamResponse:
        await reply.during(_a_while())
        assert not reply.opened
        raise Unavailable("too long", code="queue_timeout")

    answer = await _answer_of(script, body=WHOLE)
    assert (answer.status, answer.code) == (503, "queue_timeout")


async def test_headers_tell_who_answers_when_nothing_was_sent_before() -> None:
    """An answer in time has its own status and headers."""

    async def script(reply: Reply) -> web.StreamResponse:
        await reply.begin(201, {"content-type": "text/plain"}, OWN)
        await reply.write(b"x")
        return await reply.finish()

    answer = await _answer_of(script)
    assert (answer.status, answer.headers["content-type"], answer.body) == (201, "text/plain", b"x")
    assert answer.headers["x-iop-queue-ms"] == "7"


@pytest.mark.parametrize("is_end", [True, False])
async def test_an_error_in_an_open_stream_is_an_event(is_end: bool) -> None:
    """Told in the dialect of the call; the transfer ends properly only where the engine itself ended so."""

    async def script(reply: Reply) -> web.StreamResponse:
        await reply.begin(200, {"content-type": "text/event-stream"}, {})
        return await reply.fail(Unavailable("gone", code="no_provider_available"), is_end=is_end)

    answer = await _answer_of(script)
    assert re.fullmatch(rb'data: {"error":{"message":"gone",.*"code":"no_provider_available"}}\n\n', answer.body)
    assert answer.cut is not is_end


async def test_a_stream_that_has_ended_is_told_nothing_more() -> None:
    """After the API's own end an error adds no event."""

    async def script(reply: Reply) -> web.StreamResponse:
        await reply.begin(200, {}, {})
        reply.see(b"data: [DONE]\n\n")
        await reply.write(b"data: [DONE]\n\n")
        return await reply.fail(Unavailable("gone"), is_end=True)

    assert (await _answer_of(script)).body == b"data: [DONE]\n\n"


async def test_a_body_counts_until_the_answer_begins() -> None:
    """Comments do not free the request's bytes; the answer does."""
    held: list[int] = []

    async def script(reply: Reply) -> web.StreamResponse:
        await reply.during(_a_while())
        held.append(reply.call.hold.size)
        await reply.begin(200, {}, {})
        held.append(reply.call.hold.size)
        return await reply.finish()

    await _answer_of(script)
    assert held == [len(STREAM), 0]


async def test_a_client_that_reads_no_comments_is_cut() -> None:
    """Bytes that stay unsent for write_timeout end the wait; nothing waits for the client meanwhile."""

    async def script(reply: Reply) -> web.StreamResponse:
        assert reply.call.http.transport is not None
        reply.call.http.transport.write(b"x" * 30_000_000)  # more than the kernel takes for a client that does not read
        await reply.during(asyncio.Event().wait)
        raise AssertionError("nobody ended the wait")

    async def read_nothing(_client: RawClient) -> None:
        await asyncio.sleep(0)

    served = await _with(script, read_nothing, settings=Stream(keepalive_after="10ms", write_timeout="50ms"))
    assert [type(error) for error in served.ended] in ([ConnectionResetError], [asyncio.CancelledError])


async def test_a_timeout_of_the_wait_itself_passes() -> None:
    """A TimeoutError that is not the clock's is nobody's comment."""

    async def wait() -> None:
        raise TimeoutError("own")

    async def script(reply: Reply) -> web.StreamResponse:
        with pytest.raises(TimeoutError, match="own"):
            await reply.during(wait)
        assert not reply.opened
        raise Unavailable("done")

    assert (await _answer_of(script)).status == 503
