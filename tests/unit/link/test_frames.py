"""Frames: any cut of the bytes gives the same frames; wrong ones are refused at their header."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iop.link.errors import WireError
from iop.link.frames import (
    MAX_CONTROL,
    MAX_HELLO,
    MAX_PIECE,
    BodyFrame,
    ControlFrame,
    FrameReader,
    body_frame,
    control_frame,
)

PIECES = st.builds(BodyFrame, st.integers(0, 2**32 - 1), st.binary(min_size=1, max_size=300), st.booleans())
FRAMES = st.lists(st.one_of(st.builds(ControlFrame, st.binary(max_size=300)), PIECES), max_size=8)


def read_all(reader: FrameReader) -> list:
    """The frames that are whole."""
    found = []
    while (frame := reader.next_frame()) is not None:
        found.append(frame)
    return found


def encode(frame: ControlFrame | BodyFrame) -> bytes:
    """The bytes of a frame."""
    if isinstance(frame, BodyFrame):
        return body_frame(frame.run, frame.data, end=frame.end)
    return control_frame(frame.payload)


@settings(max_examples=100, deadline=None)
@given(FRAMES, st.lists(st.integers(1, 64), min_size=1, max_size=8))
def test_any_cut_gives_the_same_frames(frames, cuts):
    """What the network does to the chunks changes nothing."""
    data = b"".join(encode(frame) for frame in frames)
    reader = FrameReader()
    found, at, turn = [], 0, 0
    while at < len(data):
        step = cuts[turn % len(cuts)]
        reader.feed(data[at : at + step])
        found += read_all(reader)
        at, turn = at + step, turn + 1
    assert found == frames


def test_an_empty_piece_may_only_end():
    """END without bytes is a frame; a piece without bytes and END is none."""
    reader = FrameReader()
    reader.feed(body_frame(7, b"", end=True))
    assert reader.next_frame() == BodyFrame(7, b"", True)
    reader.feed(body_frame(7, b"", end=False))
    with pytest.raises(WireError, match="empty"):
        reader.next_frame()


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (struct.pack(">IB", MAX_HELLO + 1, 0), "over the limit"),
        (struct.pack(">IB", 2**32 - 1, 0), "over the limit"),
        (struct.pack(">IB", MAX_PIECE + 6, 1), "piece"),
        (struct.pack(">IB", 4, 1), "piece"),
        (struct.pack(">IB", 1, 2), "kind 2"),
        (struct.pack(">IBIB", 6, 1, 1, 2) + b"x", "flags"),
        (b"GET / HTTP/1.1\r\n", "kind"),
    ],
)
def test_a_wrong_frame_is_refused_at_its_header(header, words):
    """Nothing of a frame that is too long, or of another protocol, is waited for."""
    reader = FrameReader()
    reader.feed(header)
    with pytest.raises(WireError, match=words):
        reader.next_frame()


def test_the_control_limit_can_be_raised_after_the_hello():
    """A stranger's first frame is small; later ones may be larger."""
    reader = FrameReader()
    reader.max_control = MAX_CONTROL
    reader.feed(control_frame(b"x" * MAX_CONTROL))
    assert read_all(reader) == [ControlFrame(b"x" * MAX_CONTROL)]


def test_what_is_too_large_is_not_encoded():
    """The sender finds out before the peer does."""
    with pytest.raises(WireError):
        control_frame(b"x" * (MAX_CONTROL + 1))
    with pytest.raises(WireError):
        body_frame(1, b"x" * (MAX_PIECE + 1), end=False)


def test_a_reader_keeps_what_is_not_whole_and_nothing_else():
    """However often more of a long frame comes, no byte of it is kept twice, and a whole frame leaves nothing."""
    reader, whole = FrameReader(), body_frame(7, bytes(1000), end=False)
    for at, byte in enumerate(whole[:-1], 1):
        reader.feed(bytes([byte]))
        assert reader.next_frame() is None
        assert len(reader) == at
    reader.feed(whole[-1:] + whole[:3])
    assert reader.next_frame() == BodyFrame(7, bytes(1000), end=False)
    assert reader.next_frame() is None
    assert len(reader) == 3
    reader.feed(whole[3:])
    assert reader.next_frame() is not None
    assert reader.next_frame() is None
    assert len(reader) == 0
