"""Logging of every iop process: one line per record on stderr, text or JSON, UTC times, without secrets.

Where no journal or supervisor rotates what is said there (launchd, a Windows task), the variable `IOP_LOG_FILE` names a
file that the process writes and rotates instead.
"""

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import Literal, TextIO

LogFormat = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")

_SECRET = re.compile(r"(?i)(\bbearer\s+|\bauthorization['\"]?\s*[:=]\s*['\"]?(?:bearer\s+)?)[^\s'\",]+|\bsk-[\w-]{8,}")
#: libraries whose info lines tell nothing an operator needs (an access line per request among them)
_QUIET = ("aiohttp.access", "asyncio", "httpx", "httpcore")


#: the variable that names a log file; five older ones are kept beside it
FILE_VARIABLE = "IOP_LOG_FILE"
FILE_BYTES = 10 << 20
FILES_KEPT = 5


def configure(level: str, log_format: str, *, stream: TextIO | None = None) -> None:
    """Send all logs of `level` (debug, info, warning, error) and above to stderr, or to `stream`, as `log_format`.

    Without `stream`, `IOP_LOG_FILE` in the environment goes before stderr; a file that cannot be opened is named there.
    """
    handler = logging.StreamHandler(stream) if stream is not None else _own_handler()
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _own_handler() -> logging.Handler:
    name = os.environ.get(FILE_VARIABLE)
    if name:
        try:
            return RotatingFileHandler(name, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")
        except OSError as error:
            sys.stderr.write(f"warning: {FILE_VARIABLE}={name} cannot be written ({error.strerror}); logging here\n")
    return logging.StreamHandler(sys.stderr)


def redact(text: str) -> str:
    """Replace what looks like a credential: bearer tokens, Authorization values, `sk-…` keys."""
    return _SECRET.sub(lambda found: f"{found[1] or ''}[redacted]", text)


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO iop.node.service message`; line ends inside a record become ` | `."""

    def format(self, record: logging.LogRecord) -> str:
        """One line for `record`, its traceback included."""
        parts = [record.getMessage()]
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        text = " | ".join(line for part in parts for line in part.splitlines())
        return redact(f"{_utc(record)} {record.levelname} {record.name} {text}")


class JsonLines(logging.Formatter):
    """One JSON object per line: `at`, `level`, `logger`, `message`, and `traceback` when there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One line for `record`."""
        fields = {
            "at": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        if record.exc_info:
            fields["traceback"] = redact(self.formatException(record.exc_info))
        return json.dumps(fields, ensure_ascii=False)


def _utc(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
