"""The way of a body through decoding, repair and check to a client that may be behind."""

import asyncio
import zlib

import pytest

from iop.adapters.contract import RunRequest
from iop.adapters.openai_compat.checks import COMPLETED
from iop.adapters.openai_compat.decode import UndecodableError
from iop.adapters.openai_compat.passage import Passage
from iop.transport.engine_answer import EngineAnswer
from tests.fakes.sink import KeptAnswer

CODED = zlib.compress(bytes(300_000))


class Nowhere:
    """The connection of an answer that nobody asks for more."""

    def hold(self):
        """Nothing."""

    def resume(self):
        """Nothing."""

    def half_close(self):
        """Nothing."""
        return False

    def abort(self):
        """Nothing."""


async def make(*headers):
    """Return a passage and its sink, with the head passed on."""
    answer = EngineAnswer(Nowhere())
    answer.begin(200, [(b"content-type", b"application/json"), (b"content-length", b"9"), *headers])
    sink = KeptAnswer()
    await sink.head(200, ())
    return Passage(
        answer, RunRequest(request_id="r", operation="chat.completions", stream=False, body=b"{}"), sink
    ), sink


async def test_a_client_that_keeps_up_gets_each_piece_at_once():
    """No task is needed for it."""
    passage, sink = await make()
    assert passage.feed(b"a")
    assert passage.feed(b"b")
    assert sink.pieces == [b"a", b"b"]
    assert (await passage.end()).failure is None


async def test_a_client_that_is_behind_gets_all_in_order():
    """What a small coded body unpacks to waits, not decoded, until the client has taken what came before."""
    passage, sink = await make((b"content-encoding", b"deflate"))
    sink.gate.clear()
    assert not passage.feed(CODED)
    assert sink.pieces == []
    async with asyncio.TaskGroup() as group:
        group.create_task(passage.catch_up())
        await asyncio.sleep(0)
        assert sink.pieces == []
        sink.gate.set()
    assert sink.data == bytes(300_000)
    assert len(sink.pieces) > 1
    assert await passage.end() == COMPLETED


async def test_damage_is_told_where_it_can_be_awaited():
    """It is no error in the connection's own turn."""
    passage, _ = await make((b"content-encoding", b"gzip"))
    assert not passage.feed(b"plain")
    with pytest.raises(UndecodableError):
        await passage.catch_up()


async def test_a_coded_body_that_breaks_off():
    """Its framing was whole, its coding was not."""
    passage, _ = await make((b"content-encoding", b"deflate"))
    assert passage.feed(CODED[:-8])
    assert (await passage.end()).failure == "broken"
