"""JSON lines as programs really write them: long ones, noise between, no line end at the end."""

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

#: bytes of one line: Codex prints whole file contents in one; beyond this something has gone wrong in the agent
MAX_LINE = 64 * 1024 * 1024
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")

_log = logging.getLogger(__name__)


class LineTooLongError(Exception):
    """A line is longer than the cap; the text is for the client."""


class JsonLines:
    """Gives the JSON objects in what is fed, each once; what is no JSON object is noise: logged and left out."""

    def __init__(self, at_most: int | None = None) -> None:
        self._at_most = MAX_LINE if at_most is None else at_most
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the objects of the lines that `data` completes. Raises LineTooLongError."""
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._keep(line)
            yield from self._take()
        self._keep(rest)

    def end(self) -> Iterator[dict[str, Any]]:
        """Yield the object of a last line that has no line end."""
        yield from self._take()

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._at_most:
            raise LineTooLongError(f"the agent printed a line of more than {self._at_most} bytes")
        if piece:
            self._parts.append(piece)

    def _take(self) -> Iterator[dict[str, Any]]:
        line = b"".join(self._parts).strip()
        self._parts.clear()
        self._size = 0
        if line:
            found = _object(line)
            if found is None:
                _log.debug("an agent printed a line of %d bytes that is no JSON object", len(line))
            else:
                yield found


def _object(line: bytes) -> dict[str, Any] | None:
    for text in (line, _ANSI.sub(b"", line)):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None
