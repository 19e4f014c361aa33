"""Ending a JSON object of which only the first part was sent.

When a stream breaks off within an event, the client already holds the first half of a JSON text. It cannot be taken
back; but it can be brought to an end so that it parses, with a last member of our choice at the top level.
"""

import re

_SPACE = rb"[ \t\n\r]*+"
_TOKEN = re.compile(
    _SPACE + rb'(?:(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")'
    rb"|(?P<scalar>true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\d.eE+-]))"
    rb"|(?P<sign>[{}\[\],:]))",
    re.DOTALL,
)
_ESCAPE = re.compile(
    rb'"[^"\\]*+(?:\\(?:u[0-9A-Fa-f]{4}|[^u])[^"\\]*+)*+(?P<open>\\(?:u[0-9A-Fa-f]{0,3})?)?', re.DOTALL
)
_NUMBER = re.compile(rb"-?\d*\.?\d*(?:[eE][+-]?)?\d*")
_WORDS = (b"true", b"false", b"null")
#: the smallest second bytes of UTF-8 sequences: usual, after E0, after F0 (RFC 3629 section 4)
_CONTINUATIONS = (b"\x80", b"\xa0", b"\x90")


def completion(half: bytes, member: bytes) -> bytes | None:
    """Return the bytes that end the JSON object of which `half` is a proper beginning, adding `member`.

    `member` is a JSON member (`"name":value`) for the top level. Returns None if `half` is not the unfinished
    beginning of an object.
    """
    stack: list[bytes] = []
    last = b""  # the sign that came last, or b'k' after a key and b'v' after a value
    at = 0
    while match := _TOKEN.match(half, at):
        at = match.end()
        sign = match["sign"]
        if sign is None:
            last = b"k" if stack and stack[-1] == b"{" and last in {b"{", b","} else b"v"
        elif sign in {b"{", b"["}:
            stack.append(sign)
            last = sign
        elif sign in {b"}", b"]"}:
            if not stack:
                return None
            stack.pop()
            last = b"v"
        else:
            last = sign
        if not stack:
            return None
    rest = half[at:].lstrip(b" \t\n\r")
    if not stack or stack[0] != b"{":
        return None
    return _closing(stack, last, rest, member)


def _closing(stack: list[bytes], last: bytes, rest: bytes, member: bytes) -> bytes | None:
    """Finish the token in `rest`, then the innermost value, then every open level."""
    out = b""
    if rest:
        finished = _finish_token(rest)
        if finished is None:
            return None
        out = finished
        last = b"k" if stack[-1] == b"{" and last in {b"{", b","} else b"v"
    if len(stack) == 1 and last in {b"{", b","}:
        return out + member + b"}"
    if stack[-1] == b"{":
        out += {b"k": b":null", b":": b"null", b",": b'"":null'}.get(last, b"")
    elif last == b",":
        out += b"null"
    for sign in reversed(stack[1:]):
        out += b"}" if sign == b"{" else b"]"
    return out + b"," + member + b"}"


def _finish_token(rest: bytes) -> bytes | None:
    """Return what ends a string, number or word that has begun, or None if it is none of them."""
    if rest.startswith(b'"'):
        return _finish_string(rest)
    for word in _WORDS:
        if word.startswith(rest):
            return word[len(rest) :]
    if _NUMBER.fullmatch(rest):
        return b"" if rest[-1:].isdigit() else b"0"
    return None


def _finish_string(rest: bytes) -> bytes:
    match = _ESCAPE.match(rest)
    opened = match["open"] if match else None
    if opened == b"\\":
        return b'\\"'
    if opened:
        return b"0" * (6 - len(opened)) + b'"'
    return _finish_character(rest) + b'"'


def _finish_character(rest: bytes) -> bytes:
    """Return the bytes that are missing of the UTF-8 character at the end."""
    for missing in range(4):
        for first in _CONTINUATIONS:
            tail = (first + b"\x80\x80")[:missing]
            try:
                (rest[-4:].lstrip(bytes(range(0x80, 0xC0))) + tail).decode()
            except UnicodeDecodeError:
                continue
            return tail
    return b""
