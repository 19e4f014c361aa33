"""Logging of every iop process: one line per record on stderr, text or JSON, UTC times, without secrets.

What other libraries say is written from warnings on, and of that its first line: further down stand the insides of
requests. A traceback tells where and what kind of fault, not the fault's own words, which may quote what was worked on.

Where no journal or supervisor rotates what is said there (launchd, a Windows task), the variable `IOP_LOG_FILE` names a
file that the process writes and rotates instead.
"""

import logging
import os
import re
import sys
import traceback
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import Literal, TextIO

from msgspec import json

from iop.wiring.log_fields import Value, fields_of, logfmt, visible

LogFormat = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")

_SECRET = re.compile(r"(?i)(\bbearer\s+|\bauthorization['\"]?\s*[:=]\s*['\"]?(?:bearer\s+)?)[^\s'\",]+|\bsk-[\w-]{8,}")
#: our own loggers: those whose records `--log-level` is about
_OURS = "iop"

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
    root.setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level.upper()]))
    logging.getLogger(_OURS).setLevel(level.upper())


def _own_handler() -> logging.Handler:
    name = os.environ.get(FILE_VARIABLE)
    if name:
        try:
            return RotatingFileHandler(
                name, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8", errors="backslashreplace"
            )
        except OSError as error:
            sys.stderr.write(f"warning: {FILE_VARIABLE}={name} cannot be written ({error.strerror}); logging here\n")
    return logging.StreamHandler(sys.stderr)


def redact(text: str) -> str:
    """Replace what looks like a credential: bearer tokens, Authorization values, `sk-…` keys."""
    low = text.lower()  # one look for the words that the pattern begins with costs a tenth of the pattern
    if "bearer" not in low and "authorization" not in low and "sk-" not in low:
        return text
    return _SECRET.sub(lambda found: f"{found[1] or ''}[redacted]", text)


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO iop.node.service message name=value …`; line ends in a record become ` | `."""

    def format(self, record: logging.LogRecord) -> str:
        """One line for `record`, its fields and traceback included."""
        parts = [_words(record)]
        if record.exc_info and record.exc_info[1] is not None:
            parts.append(trace(record.exc_info[1]))
        text = visible(" | ".join(line for part in parts for line in part.splitlines()))
        if fields := fields_of(record):
            text = f"{text} {logfmt(fields)}"
        return redact(f"{_utc(record)} {record.levelname} {record.name} {text}")


class JsonLines(logging.Formatter):
    """One JSON object per line: `at`, `level`, `logger`, `message`, its fields, and `traceback` when there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One line for `record`."""
        line: dict[str, Value] = {
            "at": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": visible(redact(_words(record))),
        }
        for name, value in fields_of(record).items():
            line[name] = redact(value) if isinstance(value, str) else value
        if record.exc_info and record.exc_info[1] is not None:
            line["traceback"] = redact(trace(record.exc_info[1]))
        return json.encode(line).decode()


def trace(error: BaseException) -> str:
    """Return the traceback of `error` and of what led to it, with the kind of each; of the words only the system's."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    lines = [trace(before), "which led to:"] if before is not None else []
    lines.append("Traceback (most recent call last):")
    lines += [line.rstrip() for line in traceback.format_tb(error.__traceback__)]
    said = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
    lines.append(f"{type(error).__module__}.{type(error).__qualname__}{said}")
    if isinstance(error, BaseExceptionGroup):
        lines += [trace(one) for one in error.exceptions]
    return "\n".join(lines)


def _words(record: logging.LogRecord) -> str:
    text = record.getMessage()
    is_ours = record.name == _OURS or record.name.startswith(f"{_OURS}.")
    return text if is_ours else text.partition("\n")[0]


def _utc(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
