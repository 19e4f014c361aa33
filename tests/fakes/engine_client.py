"""Reading an engine's answers as an adapter would, for tests of EngineHTTP."""

from iop.transport.engine_http import EngineHttp
from tests.fakes.fake_up import FakeUp


async def read(answer):
    """Return what has come of an answer, waiting for at least one byte; empty at the end."""
    parts = []

    def into(data):
        parts.append(data)
        return False

    await answer.pour(into)
    return b"".join(parts)


async def read_all(answer):
    """Read an answer to its end."""
    parts = []

    def into(data):
        parts.append(data)
        return True

    assert not await answer.pour(into)
    return b"".join(parts)


async def fetch(script, *, body=b"{}", headers=()):
    """Send one POST to an engine with this script; return what it saw, the answer and the body."""
    async with FakeUp(script) as up:
        http = EngineHttp(up.url)
        try:
            answer = await http.request("POST", "chat/completions", headers, body)
            return up.requests[0], answer, await read_all(answer)
        finally:
            await http.close()
