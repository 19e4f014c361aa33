"""JSON lines as programs write them."""

import pytest

from iop.adapters.cli.jsonl import JsonLines, LineTooLongError


def objects(*pieces, at_most=None):
    """Return what pieces of output give."""
    lines = JsonLines(at_most)
    found = [thing for piece in pieces for thing in lines.feed(piece)]
    return found + list(lines.end())


@pytest.mark.parametrize("cut", range(20))
def test_pieces_may_end_anywhere(cut):
    """Wherever the output is cut into pieces, the objects are the same; the last needs no line end."""
    data = b'{"a":"\xc3\xa9"}\r\n\n{"b":2}'
    assert objects(data[:cut], data[cut:]) == [{"a": "é"}, {"b": 2}]


@pytest.mark.parametrize(
    "noise", [b"text", b"[1]", b"12", b"null", b"{broken", b"\xff\xfe", b"[" * 100_000, b"\x1b[31mred\x1b[0m", b"   "]
)
def test_noise_is_left_out(noise):
    """Field case B56: what is no JSON object is skipped, whatever it is."""
    assert objects(noise + b'\n{"a":1}\n' + noise) == [{"a": 1}]


@pytest.mark.parametrize("before", [b"\x1b[0m", b"\x1b[1;32m", b"\x1b]0;title\x07"])
def test_colours_are_taken_off(before):
    """Field case B56: an object between terminal sequences is an object."""
    assert objects(before + b'{"a":1}\x1b[0m\n') == [{"a": 1}]


def test_noise_is_told_by_its_size(caplog):
    """It may be an answer: the log has its length, at debug, and not a byte of it."""
    caplog.set_level("DEBUG")
    objects(b"the answer\n")
    assert "a line of 10 bytes" in caplog.text
    assert "the answer" not in caplog.text


def test_the_cap():
    """Field case B56: a longer line is an error that states the cap, as soon as it is too long."""
    assert objects(b'{"a":1}\n' * 5, at_most=8) == [{"a": 1}] * 5
    with pytest.raises(LineTooLongError, match="more than 8 bytes"):
        objects(b'{"a"', b":12345", at_most=8)
