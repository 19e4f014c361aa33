"""Event streams in every line end and every cut give the same events."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iop.openai.sse import (
    EventSplitter,
    EventTooLargeError,
    SSEEvent,
    SSEParser,
    can_stream,
    comment,
    format_event,
    parse_event,
)

STREAM = (
    b": ping\n\n"
    b'data: {"a":"\xc3\xa9\xe6\xa8\xa1\xf0\x9f\x98\x80"}\n\n'
    b":\nevent: response.created\nid: 7\ndata:{}\n\n"
    b"data: one\ndata:  two\ndata\n\n"
    b"event: nothing\n\n"
    b"retry: 5\nunknown: x\nno field\n\n"
    b"data: [DONE]\n\n"
)
EVENTS = [
    SSEEvent(None, '{"a":"é模😀"}'),
    SSEEvent("response.created", "{}", "7"),
    SSEEvent(None, "one\n two\n"),
    SSEEvent(None, "[DONE]"),
]
LINE_ENDS = [b"\n", b"\r\n", b"\r"]


@pytest.mark.parametrize("line_end", LINE_ENDS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_all_forms_give_the_same_events(line_end, size):
    """B13, B16: LF, CR LF and lone CR, one byte per feed up to all at once; comments are never data."""
    stream = STREAM.replace(b"\n", line_end)
    parser = SSEParser()
    events = [event for at in range(0, len(stream), size) for event in parser.feed(stream[at : at + size])]
    assert events == EVENTS


@pytest.mark.parametrize("line_end", LINE_ENDS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_splitter_keeps_every_byte(line_end, size):
    """B13: pieces and the rest, joined, are the stream, whatever the cut; each piece holds at most one event."""
    stream = STREAM.replace(b"\n", line_end) + b"data: half"
    splitter = EventSplitter()
    pieces = [piece for at in range(0, len(stream), size) for piece in splitter.feed(stream[at : at + size])]
    whole = b"".join(pieces)
    assert stream.startswith(whole)
    assert stream[len(whole) :] in {splitter.pending, b"\n" + splitter.pending}
    assert [event for piece in pieces if (event := parse_event(piece))] == EVENTS


def test_mixed_line_ends():
    """Different line ends in one stream, also within one empty line, are read as the standard says."""
    parser = SSEParser()
    assert parser.feed(b"data: a\r\n\ndata: b\n\r\ndata: c\r\rdata: d\n\r") == [SSEEvent(None, text) for text in "abcd"]
    assert parser.feed(b"\ndata: e\r") == []
    assert parser.feed(b"\ndata: f\r\n\r\n") == [SSEEvent(None, "e\nf")]


def test_event_is_not_held_back_by_a_split_line_end():
    """An event whose last CR has come is given at once; the LF that follows belongs to that CR."""
    parser = SSEParser()
    assert parser.feed(b"data: a\r\n\r") == [SSEEvent(None, "a")]
    assert parser.feed(b"\n") == []
    assert parser.feed(b"\r\ndata: b\r\n\r\n") == [SSEEvent(None, "b")]


def test_pending_leaves_out_the_second_half_of_a_line_end():
    """An LF that only completes the last piece's CR LF is no open event."""
    splitter = EventSplitter()
    splitter.feed(b"data: a\r\n\r")
    splitter.feed(b"\n")
    assert splitter.pending == b""
    splitter.feed(b"dat")
    assert splitter.pending == b"dat"


def test_byte_order_mark_at_the_start_only():
    """A leading BOM is skipped, as clients do; anywhere else it is a part of a field name."""
    parser = SSEParser()
    assert parser.feed(b"\xef\xbb\xbfdata: a\n\n") == [SSEEvent(None, "a")]
    assert parser.feed(b"\xef\xbb\xbfdata: b\n\n") == []


def test_bytes_that_are_not_utf8_do_not_raise():
    """A broken character becomes U+FFFD and the reader goes on; an id with NUL is ignored."""
    assert SSEParser().feed(b"id: a\0b\ndata: \xff\n\n") == [SSEEvent(None, "\ufffd")]


def test_an_event_is_bounded():
    """An event that never ends is an error, not memory without bound; many small ones are fine."""
    parser = SSEParser(max_event=100)
    for _ in range(50):
        assert len(parser.feed(b"data: 0123456789\n\n")) == 1
    for _ in range(5):
        parser.feed(b"data: 0123456789\n")
    with pytest.raises(EventTooLargeError):
        parser.feed(b"data: 0123456789\n")


def test_what_came_before_an_event_that_is_too_long_is_not_lost():
    """The error carries the pieces of its call, and the splitter still holds the rest."""
    splitter = EventSplitter(max_event=20)
    with pytest.raises(EventTooLargeError) as caught:
        splitter.feed(b"data: a\n\n: b\n\ndata: 0123456789012345")
    assert caught.value.pieces == [b"data: a\n\n", b": b\n\n"]
    assert splitter.held == splitter.pending == b"data: 0123456789012345"


def test_held_has_every_byte():
    """What is held, after the pieces, makes up the stream, the LF of a split CR LF included."""
    splitter = EventSplitter()
    splitter.feed(b"data: a\r\n\r")
    splitter.feed(b"\ndat")
    assert (splitter.held, splitter.pending) == (b"\ndat", b"dat")


@pytest.mark.parametrize(("data", "event"), [("x", None), ("a\nb\n", "e"), ("", None)])
def test_format_is_read_back(data, event):
    """What format_event writes is what the parser reads."""
    assert SSEParser().feed(format_event(data, event)) == [SSEEvent(event, data)]


def test_a_comment_is_one_line_and_never_an_event():
    """No empty line follows it: a reader that dispatches on each of those sees no event either."""
    assert comment("keep-alive") == b": keep-alive\n"
    parser = SSEParser()
    assert parser.feed(comment("a") + comment("b") + b"data: x\n\n") == [SSEEvent(None, "x")]


@pytest.mark.parametrize(("status", "is_one"), [(101, False), (200, True), (204, False), (205, False), (400, False)])
def test_which_answers_can_be_a_stream_of_events(status, is_one):
    """Successes that have a body."""
    assert can_stream(status) is is_one


@given(text=st.text(alphabet="\r\na:", max_size=24).map(str.encode), cuts=st.lists(st.integers(0, 24), max_size=6))
def test_the_pieces_do_not_depend_on_the_cuts(text: bytes, cuts: list[int]) -> None:
    """LF and CR at will: whatever is read at once, plain or with a CR in it, the pieces and the rest are the same."""
    marks = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    whole, cut = EventSplitter(), EventSplitter()
    expected = whole.feed(text)
    found = [piece for start, end in itertools.pairwise(marks) for piece in cut.feed(text[start:end])]

    # the LF of a CR LF may come after the piece that its CR ended, and then stands at the front of the next one
    assert b"".join(found) + cut.held == b"".join(expected) + whole.held == text
    assert [piece.strip(b"\r\n") for piece in found] == [piece.strip(b"\r\n") for piece in expected]
    assert cut.pending.strip(b"\r\n") == whole.pending.strip(b"\r\n")


@given(text=st.text(alphabet="\na:", max_size=24).map(str.encode), cuts=st.lists(st.integers(0, 24), max_size=6))
def test_a_stream_without_cr_is_cut_behind_each_two_lf(text: bytes, cuts: list[int]) -> None:
    """The plain reader agrees with the definition, in any cut."""
    marks = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    splitter = EventSplitter()
    found = [piece for start, end in itertools.pairwise(marks) for piece in splitter.feed(text[start:end])]

    *whole, rest = text.split(b"\n\n")
    assert (found, splitter.pending) == ([part + b"\n\n" for part in whole], rest)


@given(
    text=st.text(alphabet="\n\ra:", max_size=24).map(str.encode),
    cuts=st.lists(st.integers(0, 24), max_size=6),
    skipped=st.sets(st.integers(0, 6)),
)
def test_skipping_leaves_what_feeding_would_leave(text: bytes, cuts: list[int], skipped: set[int]) -> None:
    """Whichever parts are skipped, where that can be: what is held, and how what comes next is cut, is the same."""
    marks = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    fed, skipping = EventSplitter(), EventSplitter()
    for number, (start, end) in enumerate(itertools.pairwise(marks)):
        part = text[start:end]
        pieces = fed.feed(part)
        if number not in skipped or not skipping.skip(part):
            assert skipping.feed(part) == pieces
        assert (skipping.pending, skipping.held) == (fed.pending, fed.held)
    assert skipping.feed(b"\n\nx\n\n") == fed.feed(b"\n\nx\n\n")
