"""Reading answers from bytes in any cut."""

import pytest

from iop.transport.engine_reader import MAX_HEAD, AnswerReader
from tests.fakes.fake_up import LAST_CHUNK, chunk, head, response, stream_head

LENGTH = ("Content-Length", "2")
WHOLE = {
    "counted": (head(200, [LENGTH]) + b"ab", True),
    "chunked": (stream_head() + chunk(b"a") + chunk(b"b") + LAST_CHUNK, True),
    "extensions": (stream_head() + b"2;x=y\r\nab\r\n" + LAST_CHUNK, True),
    "trailers": (stream_head() + chunk(b"ab") + b"0\r\nX-Sum: 1\r\n\r\n", True),
    "interim": (head(100) + head(103, [("Link", "x")]) + head(200, [LENGTH]) + b"ab", True),
    "bare line feeds": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nab", True),
    "close": (head(200, [LENGTH, ("Connection", "close")]) + b"ab", False),
    "old": (head(200, [LENGTH], version="1.0") + b"ab", False),
    "old but kept": (head(200, [LENGTH, ("Connection", "keep-alive")], version="1.0") + b"ab", True),
}


@pytest.mark.parametrize("step", [1, 3, 10_000])
@pytest.mark.parametrize("kind", WHOLE)
def test_whole_answers(kind, step):
    """Each framing comes to its end in any cut, and says whether its connection lives on."""
    sent, keep = WHOLE[kind]
    reader, body = AnswerReader(), b""
    for at in range(0, len(sent), step):
        assert not reader.done
        body += reader.feed(sent[at : at + step])
    assert (reader.status, body, reader.done, reader.keep, reader.fault) == (200, b"ab", True, keep, None)
    assert not {name for name, _ in reader.headers} & {b"Link", b"X-Sum"}


def test_one_answer_after_the_other():
    """What the first one said is forgotten."""
    reader = AnswerReader()
    assert reader.feed(response(404, b"no", [("X-A", "\xe9")])) == b"no"
    assert reader.headers == [(b"X-A", b"\xe9"), (b"Content-Length", b"2")]
    reader.reset()
    assert not reader.touched
    assert reader.feed(response(200, b"yes", ())) == b"yes"
    assert (reader.status, reader.headers, reader.keep) == (200, [(b"Content-Length", b"3")], True)


@pytest.mark.parametrize("more", [b"x", response(404, b"zz"), b"HTTP/1.1 4"])
def test_bytes_behind_the_end_end_the_connection(more):
    """They are no part of the answer, and no fault of it."""
    reader = AnswerReader()
    assert reader.feed(response(200, b"ab") + more) == b"ab"
    assert (reader.status, reader.done, reader.keep, reader.fault) == (200, True, False, None)


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 9999 x\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        head(200, [LENGTH, ("Content-Length", "3")]),
    ],
)
def test_what_is_not_http(sent):
    """It is told as such."""
    reader = AnswerReader()
    reader.feed(sent)
    assert reader.fault is not None
    assert reader.fault.startswith("the answer is not HTTP: ")
    assert not reader.done


def test_bytes_before_the_fault_count():
    """A body that breaks off in its framing has given what came before."""
    reader = AnswerReader()
    assert reader.feed(stream_head() + chunk(b"abc") + b"zz") == b"abc"
    assert (reader.status, reader.done) == (200, False)
    assert reader.fault is not None


@pytest.mark.parametrize(
    "begin",
    [
        b"HTTP/1.1 200 OK\r\nX-A: ",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * (MAX_HEAD // 2),
        head(100) * (MAX_HEAD // 10),
        stream_head() + b"0\r\nX-A: ",
    ],
)
def test_a_head_has_a_bound(begin):
    """An engine cannot fill the memory with headers, interim answers or trailers."""
    reader = AnswerReader()
    data = begin + b"x" * (MAX_HEAD + 1000)
    for at in range(0, len(data), 1000):
        if reader.fault is None:
            reader.feed(data[at : at + 1000])
    assert reader.fault == f"its headers are longer than {MAX_HEAD} bytes"


def test_a_long_head_passes():
    """Engines put whole warnings into headers."""
    reader = AnswerReader()
    reader.feed(head(200, [("Warning", "w" * 60_000), LENGTH]) + b"ab")
    assert (reader.done, len(reader.headers[0][1])) == (True, 60_000)
