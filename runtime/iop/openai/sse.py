"""Server-sent events, read incrementally from bytes in any cut (the HTML standard's event stream format).

Line ends are LF, CR LF or a lone CR, mixed at will; a character or a line end may be split over two chunks. Only whole
events are decoded. `EventSplitter` keeps the bytes, for those who pass events on; `SSEParser` gives what they say.
"""

import re
from dataclasses import dataclass

EVENT_STREAM = "text/event-stream"
#: successes that have no body (RFC 9110 15.3.5 and 15.3.6)
_BODILESS = frozenset({204, 205})
#: bytes of one event that are held until its end comes; a final Responses event repeats the whole answer
MAX_EVENT = 16 * 1024 * 1024

_LINE_END = re.compile(rb"\r\n|\n|\r")
#: the end of a line and then an empty line; atomic groups, so that CR LF is never taken for two line ends
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_BOM = b"\xef\xbb\xbf"


def can_stream(status: int) -> bool:
    """Return whether an answer of this status can be a stream of events; of any other its type says nothing."""
    return 200 <= status < 300 and status not in _BODILESS


class EventTooLargeError(ValueError):
    """One event is over the bound; the rest of the stream cannot be read by this reader.

    `pieces` are those of the same call that were whole before that event began.
    """

    def __init__(self, text: str, pieces: list[bytes]) -> None:
        super().__init__(text)
        self.pieces = pieces


@dataclass(frozen=True, slots=True)
class SSEEvent:
    """One event that carries data. `event` is None without an `event:` line, `id` None without an `id:` line."""

    event: str | None
    data: str
    id: str | None = None


class EventSplitter:
    """Cuts a byte stream behind each empty line.

    The pieces, joined, are the stream byte for byte up to what is still `pending`.
    """

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self._buffer = bytearray()
        self._searched = 0
        self._after_cr = False
        #: a CR is held, or may be one half of a line end
        self._has_cr = False

    def skip(self, data: bytes) -> bool:
        """Take bytes whose pieces nobody needs, as `feed` would. False, and nothing taken, where only `feed` can tell
        how they are cut.
        """
        buffer = self._buffer
        if self._has_cr or b"\r" in data or len(buffer) + len(data) > self._max_event:
            return False
        end = data.rfind(b"\n\n")
        before = data[end - 1 : end] if end > 0 else bytes(buffer[-1:])
        if before == b"\n" and (end >= 0 or data.startswith(b"\n")):
            return False  # more than two in a row, or one on each side of the cut
        if end >= 0:
            buffer.clear()
        buffer += data[end + 2 :] if end >= 0 else data
        self._searched = max(len(buffer) - 1, 0)
        return True

    def tail(self, count: int) -> bytes:
        """Return the last bytes of what has no end yet, `count` at most."""
        return bytes(self._buffer[-count:])

    @property
    def pending(self) -> bytes:
        """The bytes of the piece that has no end yet (an LF that belongs to the last piece's CR left out)."""
        skip = 1 if self._after_cr and self._buffer.startswith(b"\n") else 0
        return bytes(self._buffer[skip:])

    @property
    def held(self) -> bytes:
        """Every byte that no piece has given yet: `pending`, and before it the LF of a CR LF if it is here."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes and return the pieces that are whole now, ends included.

        Raises `EventTooLargeError` when more than `max_event` bytes wait for their end.
        """
        if not self._has_cr and b"\r" not in data:
            return self._feed_plain(data)
        buffer = self._buffer
        buffer += data
        pieces = []
        start = 0
        search = self._searched
        while True:
            if self._after_cr and search == start and start < len(buffer):
                # the LF of a CR LF whose CR ended the last piece is no line end of its own
                search = start + (buffer[start] == 10)
            match = _BLANK_LINE.search(buffer, search)
            if match is None:
                break
            pieces.append(bytes(buffer[start : match.end()]))
            start = search = match.end()
            self._after_cr = buffer[start - 1] == 13
        del buffer[:start]
        # a blank line is at most four bytes, of which three may be here; but never before the LF skipped above
        skipped = 1 if self._after_cr and buffer.startswith(b"\n") else 0
        self._searched = max(len(buffer) - 3, skipped)
        self._has_cr = self._after_cr or b"\r" in buffer
        return self._bounded(pieces)

    def _feed_plain(self, data: bytes) -> list[bytes]:
        """Do the same where no CR is, as nearly everywhere: an empty line is two LF, and a plain search is fast."""
        buffer = self._buffer
        buffer += data
        pieces = []
        start, at = 0, buffer.find(b"\n\n", self._searched)
        while at >= 0:
            pieces.append(bytes(buffer[start : at + 2]))
            start = at + 2
            at = buffer.find(b"\n\n", start)
        del buffer[:start]
        self._searched = max(len(buffer) - 1, 0)
        return self._bounded(pieces)

    def _bounded(self, pieces: list[bytes]) -> list[bytes]:
        if len(self._buffer) > self._max_event:
            raise EventTooLargeError(f"an event is longer than {self._max_event} bytes", pieces)
        return pieces


class SSEParser:
    """Reads events as a client would: comments vanish, an event without data is none, a leading BOM is skipped."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._splitter = EventSplitter(max_event)
        self._started = False

    def feed(self, data: bytes) -> list[SSEEvent]:
        """Take the next bytes and return the events that ended in them; raises `EventTooLargeError`."""
        events = []
        for piece in self._splitter.feed(data):
            event = parse_event(piece if self._started else piece.removeprefix(_BOM))
            self._started = True
            if event is not None:
                events.append(event)
        return events


def parse_event(piece: bytes) -> SSEEvent | None:
    """Read one piece of a stream (the lines up to an empty one); None if it carries no data."""
    name = last_id = None
    data: list[str] = []
    for line in _LINE_END.split(piece):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value.decode("utf-8", "replace"))
        elif field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            last_id = value.decode("utf-8", "replace")
    return SSEEvent(name or None, "\n".join(data), last_id) if data else None


def event_data(piece: bytes) -> bytes | None:
    """Return the data of one piece as bytes, also where its last line or character is unfinished; None without any."""
    fields = [line.partition(b":") for line in _LINE_END.split(piece)]
    data = [value.removeprefix(b" ") for field, _, value in fields if field == b"data"]
    return b"\n".join(data) if data else None


def format_event(data: str, event: str | None = None) -> bytes:
    """Return the bytes of one event; each line of `data` becomes a `data:` line."""
    head = f"event: {event}\n" if event else ""
    body = "".join(f"data: {line}\n" for line in data.split("\n"))
    return f"{head}{body}\n".encode()


def comment(text: str) -> bytes:
    """Return the bytes of a comment: one line that ends, and no empty line behind it.

    Readers that dispatch on each empty line (OpenAI's Go library until 2026) would otherwise see an event without data.
    """
    return f": {text}\n".encode()
