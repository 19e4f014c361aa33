"""An answer as its connection fills it and its reader empties it."""

import asyncio

import pytest

from iop.transport.engine_answer import READ_BUFFER, EngineAnswer, EngineError


class Line:
    """A connection that notes what its answer asks of it."""

    def __init__(self):
        self.said = []

    def hold(self):
        self.said.append("hold")

    def resume(self):
        self.said.append("resume")

    def half_close(self):
        self.said.append("half_close")
        return True

    def abort(self):
        self.said.append("abort")


class Reader:
    """Takes pieces, as many as `room`."""

    def __init__(self, room=1000):
        self.room = room
        self.pieces = []

    def __call__(self, data):
        self.pieces.append(data)
        self.room -= 1
        return self.room > 0


def begun(*headers):
    """Return an answer with a head, and its connection."""
    line = Line()
    answer = EngineAnswer(line)
    answer.begin(200, list(headers))
    return answer, line


async def turns():
    """Let tasks go on."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_is_there_is_given_without_a_wait():
    """Head, body and end at once: one piece, and the end."""
    answer, line = begun((b"X-A", b"\xe9"))
    answer.feed(b"a")
    answer.feed(b"b")
    answer.end()
    reader = Reader()
    assert await answer.pour(reader) is False
    assert reader.pieces == [b"ab"]
    assert answer.headers == (("X-A", "\xe9"),)
    await answer.leave()
    assert line.said == []


async def test_each_piece_is_given_in_the_turn_in_which_it_comes():
    """The reader has it before any task runs."""
    answer, _ = begun()
    reader = Reader()
    async with asyncio.TaskGroup() as group:
        pouring = group.create_task(answer.pour(reader))
        await turns()
        answer.feed(b"a")
        assert reader.pieces == [b"a"]
        answer.feed(b"b")
        assert reader.pieces == [b"a", b"b"]
        answer.end()
    assert pouring.result() is False


async def test_a_reader_that_is_behind_is_given_the_rest_later():
    """What comes meanwhile is kept, the end and a break after it included."""
    answer, _ = begun()
    reader = Reader(room=1)
    async with asyncio.TaskGroup() as group:
        pouring = group.create_task(answer.pour(reader))
        await turns()
        for piece in (b"a", b"b", b"c"):
            answer.feed(piece)
        answer.end(EngineError("broken", "cut"))
    assert pouring.result() is True
    assert reader.pieces == [b"a"]
    reader.room = 5
    with pytest.raises(EngineError):
        await answer.pour(reader)
    assert reader.pieces == [b"a", b"bc"]


async def test_a_reader_that_is_behind_with_what_was_there():
    """It is asked again before the next piece."""
    answer, _ = begun()
    answer.feed(b"a")
    answer.end()
    assert await answer.pour(Reader(room=1)) is True
    assert await answer.pour(Reader()) is False


async def test_an_engine_is_held_while_much_is_unread():
    """Reading it all lets the engine go on."""
    answer, line = begun()
    answer.feed(bytes(READ_BUFFER))
    assert line.said == []
    answer.feed(b"x")
    answer.feed(b"x")
    assert line.said == ["hold"]
    assert await answer.pour(Reader(room=1)) is True
    assert line.said == ["hold", "resume"]


async def test_silence_is_counted_from_the_last_byte():
    """Bytes in time put the end off; then the time is up."""
    answer, _ = begun()
    loop = asyncio.get_running_loop()
    reader = Reader()
    began = loop.time()
    async with asyncio.TaskGroup() as group:

        async def waits():
            with pytest.raises(TimeoutError):
                await answer.pour(reader, 0.1)

        group.create_task(waits())
        await asyncio.sleep(0.06)
        answer.feed(b"a")
        last = loop.time()
    assert loop.time() - last >= 0.099
    assert loop.time() - began >= 0.15


async def test_the_head_is_waited_for():
    """It comes, or a break comes, or the time is up."""
    answer = EngineAnswer(Line())
    with pytest.raises(TimeoutError):
        await answer.begun(0.01)
    answer.end(EngineError("reset", "gone"))
    with pytest.raises(EngineError):
        await answer.begun(0.01)


@pytest.mark.parametrize("ended", [True, False])
async def test_leaving(ended):
    """An engine that ends its side in time is waited for, one that does not is cut off; what it sends is not kept."""
    answer, line = begun()
    async with asyncio.TaskGroup() as group:
        group.create_task(answer.leave(within=20 if ended else 0.01))
        await turns()
        assert line.said == ["half_close"]
        answer.feed(b"late")
        if ended:
            answer.end()
    assert line.said == (["half_close"] if ended else ["half_close", "abort"])


@pytest.mark.parametrize(
    ("headers", "codings", "ends_with_connection"),
    [
        ([(b"Content-Length", b"3")], "", False),
        ([(b"TRANSFER-encoding", b"chunked")], "", False),
        ([(b"Transfer-Encoding", b"gzip, Chunked"), (b"content-encoding", b"deflate")], "deflate,gzip", False),
        ([(b"Content-Encoding", b"br")], "br", True),
    ],
)
async def test_framing_and_codings(headers, codings, ends_with_connection):
    """They are read whatever the case of their names."""
    answer, _ = begun(*headers)
    assert (answer.codings, answer.ends_with_connection) == (codings, ends_with_connection)
    assert answer.header(headers[0][0].decode().lower()) == headers[0][1].decode()
    assert answer.header("x-none") == ""
