"""Which facts a log line may carry beside its words: an allow-list of names, each with its type.

What is not listed, or of another type, is not written. Texts that come from outside are cut to a length, and nothing in
them can end the line or speak to a terminal.
"""

import logging
import re
from collections.abc import Mapping

from msgspec import json

Value = str | int | bool | None

#: name and type of every field; docs/reference/logs.md tells what each means
FIELDS: Mapping[str, type] = {
    "request_id": str,
    "method": str,
    "path": str,
    "peer": str,
    "route": str,
    "model": str,
    "key": str,
    "stream": bool,
    "provider_id": str,
    "node_id": str,
    "adapter": str,
    "target": str,
    "outcome": str,
    "reason": str,
    "status": int,
    "error": str,
    "queue_ms": int,
    "first_byte_ms": int,
    "hold_ms": int,
    "total_ms": int,
    "bytes_out": int,
}
#: characters kept of one text: what the interface lets a request id have, or a line of a path
MAX_TEXT = 200

#: C0 and C1 controls, DEL, line separators, and what turns the direction of text
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PLAIN = re.compile(r"[\w.:/@+~-]+")


def visible(text: str) -> str:
    r"""Return the text with each control character as `\xNN` or `\uNNNN`."""
    # what Python calls printable has nothing of that in it, and is seen at once
    return text if text.isprintable() else _UNSAFE.sub(_escaped, text)


def fields_of(record: logging.LogRecord) -> dict[str, Value]:
    """Return the fields of a record that may be written, in the order of the list; those that are None too."""
    given = getattr(record, "fields", None)
    if not isinstance(given, dict):
        return {}
    told: dict[str, Value] = {}
    for name, kind in FIELDS.items():
        if name in given:
            value = given[name]
            if kind is str and isinstance(value, str):  # a word of an enumeration, too
                told[name] = _bounded(value)
            elif value is None or type(value) is kind:
                told[name] = given[name]
    return told


def logfmt(fields: Mapping[str, Value]) -> str:
    """Return `name=value …`; what is no plain word is a JSON string, what is None is left out."""
    return " ".join(f"{name}={_word(value)}" for name, value in fields.items() if value is not None)


def _bounded(text: str) -> str:
    return visible(str(text) if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…")


def _word(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.encode(text).decode()


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
