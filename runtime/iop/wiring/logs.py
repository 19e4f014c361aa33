"""Logging of every iop process: one line per record on stderr, text or JSON, UTC times, without secrets."""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

LogFormat = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")

_SECRET = re.compile(r"(?i)(\bbearer\s+|\bauthorization['\"]?\s*[:=]\s*['\"]?(?:bearer\s+)?)[^\s'\",]+|\bsk-[\w-]{8,}")
#: libraries whose info lines tell nothing an operator needs (an access line per request among them)
_QUIET = ("aiohttp.access", "asyncio", "httpx", "httpcore")


def configure(level: str, log_format: str, *, stream: TextIO | None = None) -> None:
    """Send all logs of `level` (debug, info, warning, error) and above to stderr, or to `stream`, as `log_format`."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


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
