"""Outbox: what goes out together, in which order, and when."""

import asyncio

import pytest

from iop.transport import outbox
from iop.transport.outbox import FLUSH_AT, LARGE, Outbox


class Transport:
    """Takes the place of a socket: writes down each write."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        assert not self.closing
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return sum(len(data) for data in self.written)


@pytest.fixture
async def transport():
    """A socket that takes everything."""
    return Transport()


@pytest.fixture
async def box(transport):
    """Its outbox."""
    return Outbox(transport, pytest.fail)


async def test_frames_of_one_turn_are_one_write(box, transport):
    """In order, at the end of the turn; the next turn is another write."""
    for data in (b"run", b"body", b"credit"):
        box.put(data)
    assert transport.written == []
    await asyncio.sleep(0)
    assert transport.written == [b"runbodycredit"]
    box.put(b"next")
    await asyncio.sleep(0)
    assert transport.written[1:] == [b"next"]


async def test_who_holds_it_flushes_it(box, transport):
    """No turn of the loop is spent while its user is at work anyway; what comes later goes out by itself again."""
    box.hold()
    box.put(b"a")
    box.put(b"b")
    await asyncio.sleep(0)
    assert transport.written == []
    box.flush()
    assert transport.written == [b"ab"]
    box.flush()
    box.put(b"c")
    await asyncio.sleep(0)
    assert transport.written == [b"ab", b"c"]


async def test_a_large_frame_goes_at_once_and_after_what_was_before_it(box, transport):
    """It is not copied again, and nothing overtakes."""
    large = bytes(LARGE)
    box.put(b"before")
    box.put(large)
    box.put(b"after")
    assert transport.written == [b"before", large]
    assert transport.written[1] is large
    await asyncio.sleep(0)
    assert transport.written[2:] == [b"after"]


async def test_no_more_than_a_bound_waits_for_the_end_of_a_turn(box, transport):
    """A turn that makes many frames does not keep them all."""
    piece = bytes(LARGE - 1)
    most = FLUSH_AT // len(piece) + 1
    for _ in range(most):
        box.put(piece)
    assert transport.written == [piece * most]


async def test_nothing_is_written_to_a_closing_connection(box, transport):
    """Neither what waits nor a large frame."""
    box.put(b"a")
    transport.closing = True
    box.put(bytes(LARGE))
    await asyncio.sleep(0)
    assert transport.written == []


async def test_a_peer_that_does_not_read_is_told_about(transport, monkeypatch):
    """From the limit on, with words for the log."""
    monkeypatch.setattr(outbox, "WRITE_LIMIT", 10)
    told: list[str] = []
    box = Outbox(transport, told.append)
    box.put(bytes(10))
    box.flush()
    assert told == []
    box.put(b"x")
    box.flush()
    assert told == ["the peer does not read: 10 bytes wait for it"]
