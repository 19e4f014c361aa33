"""Reads one answer after the other from the bytes of a connection: llhttp, the parser of Node.js, without any I/O."""

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

#: bytes of all header lines of an answer, interim answers and trailers included; engines put whole warnings there
MAX_HEAD = 128 * 1024
_SWITCHING = 101
#: below it are interim answers: they are taken off, but for 101, which would make the connection another
FIRST_FINAL = 200


class AnswerReader:
    """What the bytes fed so far say about the present answer.

    status    of its head; 0 until the head is whole
    headers   names and values as they came; those of interim answers and of trailers are left out
    touched   at least one byte of it came
    done      it came to its own end: one that ends with its connection never does
    keep      only if `done`: the connection can carry another exchange, and no byte came after the end
    strayed   bytes came behind an answer after which the connection could have been kept
    fault     what was no HTTP, else None
    """

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        # bare line feeds and the like: many an engine has an HTTP server of its own
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._parts: list[bytes] = []
        self.reset()

    def reset(self) -> None:
        """Wait for the next answer."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.touched = self.done = self.keep = self.strayed = False
        self.fault: str | None = None
        self._head_size = 0
        self._dry = 0

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; returns those of the body, transfer coding removed."""
        self.touched = True
        self._dry += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self.keep = False
        except HttpParserError as error:
            self._stop_keeping()
            if not self.done:
                self.fault = self._too_large() or f"the answer is not HTTP: {error}"
        if self._dry > MAX_HEAD and not self.done:
            self.fault = self.fault or self._too_large(self._dry)
        parts = self._parts
        if not parts:
            return b""
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        return body

    # httptools

    def on_message_begin(self) -> None:
        """httptools: a status line begins."""
        if self.done:
            self._stop_keeping()

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: a header line, or a trailer."""
        self._head_size += len(name) + len(value)
        if self._head_size > MAX_HEAD:
            raise ValueError
        if not self.status:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """httptools: a head is whole."""
        if self.status:  # of a second answer, which nobody asked for
            return
        status = self._parser.get_status_code()
        if 100 <= status < FIRST_FINAL and status != _SWITCHING:
            self.headers.clear()
        else:
            self.status = status
            self._dry = 0

    def on_body(self, data: bytes) -> None:
        """httptools: entity bytes."""
        if not self.done:
            self._parts.append(data)
            self._dry = 0

    def on_message_complete(self) -> None:
        """httptools: the answer's own end."""
        if self.status and not self.done:
            self.done = True
            self.keep = self._parser.should_keep_alive()  # right only here

    def _stop_keeping(self) -> None:
        self.strayed = self.strayed or self.keep
        self.keep = False

    def _too_large(self, size: int | None = None) -> str | None:
        is_too_large = (self._head_size if size is None else size) > MAX_HEAD
        return f"its headers are longer than {MAX_HEAD} bytes" if is_too_large else None
