"""The asynchronous reader of an Edge."""

import httpx
import pytest

from iop.admin.aio import AsyncAdminReader
from iop.admin.wire import AdminRefused, AdminUnreachable


class Pieces(httpx.AsyncByteStream):
    """One event, then the end or an error."""

    def __init__(self, error=None):
        self.error = error

    async def __aiter__(self):
        yield b"id: 1\n\n"
        if self.error:
            raise self.error


def reader(answer):
    """Make a reader whose calls are all answered by `answer(request)`."""
    return AsyncAdminReader("http://edge:1/", token="t", transport=httpx.MockTransport(answer))


def refuse(request):
    """Answer like a closed port."""
    raise httpx.ConnectError("refused", request=request)


async def test_a_status_is_read_with_the_token():
    """The path and the bearer token are right, and the JSON comes back."""
    asked = []

    def answer(request):
        asked.append((request.url.path, request.headers["authorization"]))
        return httpx.Response(200, json={"schema": 1})

    edge = reader(answer)
    assert await edge.status() == {"schema": 1}
    assert asked == [("/status", "Bearer t")]
    await edge.close()


async def test_events_come_as_bytes_after_an_id():
    """The id travels as a header, the bytes pass untouched."""
    asked = []

    def answer(request):
        asked.append(request.headers.get("last-event-id"))
        return httpx.Response(200, stream=Pieces())

    edge = reader(answer)
    for after in ("7", None):
        async with edge.events(after) as chunks:
            assert b"".join([chunk async for chunk in chunks]) == b"id: 1\n\n"
    assert asked == ["7", None]
    await edge.close()


async def test_a_dead_edge_is_unreachable():
    """A refused connection names the address, for status and events."""
    edge = reader(refuse)
    with pytest.raises(AdminUnreachable, match="http://edge:1"):
        await edge.status()
    with pytest.raises(AdminUnreachable, match="refused"):
        async with edge.events(None):
            pass
    await edge.close()


async def test_refused_events_keep_status_and_words():
    """An error instead of a stream is AdminRefused."""
    error = {"error": {"message": "bad id", "code": "invalid_body"}}
    edge = reader(lambda request: httpx.Response(400, json=error))
    with pytest.raises(AdminRefused, match="bad id") as caught:
        async with edge.events("x"):
            pass
    assert caught.value.status == 400
    await edge.close()


async def test_a_stream_that_breaks_is_unreachable():
    """A cut in the middle is told, not taken for the end."""
    edge = reader(lambda request: httpx.Response(200, stream=Pieces(httpx.ReadError("reset"))))
    async with edge.events(None) as chunks:
        assert await anext(chunks) == b"id: 1\n\n"
        with pytest.raises(AdminUnreachable, match="reset"):
            await anext(chunks)
    await edge.close()
