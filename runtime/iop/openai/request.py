"""Reading the top level of a client's body, and changing the one value that must change: `model`.

Routing and sending share one reading: `read_request` finds where the top-level values stand in the bytes, and
`engine_body` replaces exactly those bytes. Nothing below the top level is looked at, so that fields unknown here keep
their bytes (numbers, escapes, order, white space).
"""

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NoReturn

import msgspec

from iop.domain.errors import BadRequest

#: levels of nesting that are read; deeper bodies are refused, as CPython's own readers give up from about 1,000
MAX_DEPTH = 500
#: top-level keys that are read; the APIs define about 40, and each costs a step of the walk below
MAX_KEYS = 2048

_Spans = dict[str, tuple[int, int]]

_WANTED = frozenset({"model", "stream", "previous_response_id"})
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[ \t\n\r]*")
_KEY = re.compile(rb'[ \t\n\r]*("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\n\r]*:[ \t\n\r]*', re.DOTALL)
_AFTER = re.compile(rb"[ \t\n\r]*[,}]")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TEXT_SPACE = re.compile(r"[ \t\n\r]*")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

_TEXT = msgspec.json.Decoder(str)
_RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class OpenAIRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request as far as iop reads it. `body` is the client's own bytes.

    `model_span` holds the byte offsets (start, end) of the top-level `model` value within `body`;
    `previous_response_id` is None when it is absent or not a string.
    """

    model: str
    stream: bool
    body: bytes
    model_span: tuple[int, int]
    previous_response_id: str | None = None

    def __repr__(self) -> str:
        """Tell nothing of the body, which is the client's."""
        return f"OpenAIRequest(model={self.model!r}, stream={self.stream}, {len(self.body)} bytes)"


def read_request(body: bytes) -> OpenAIRequest:
    """Read the top level of `body`.

    Raises `BadRequest`: `invalid_json` (not JSON in UTF-8, NaN or Infinity, nested deeper than 500 levels),
    `invalid_body` (not an object, a top-level key twice, `stream` not a boolean), `missing_model`.
    """
    spans = _spans(body)
    model = _model(body, spans)
    return OpenAIRequest(
        model=model,
        stream=_stream(body, spans),
        body=body,
        model_span=spans["model"],
        previous_response_id=_optional_string(body, spans.get("previous_response_id")),
    )


def engine_body(request: OpenAIRequest, engine_model: str) -> bytes:
    """Return the body for an engine that knows the model as `engine_model`.

    Equal names give the client's bytes object itself; otherwise only the value of the top-level `model` differs.
    """
    if engine_model == request.model:
        return request.body
    start, end = request.model_span
    view = memoryview(request.body)
    return b"".join((view[:start], json.dumps(engine_model, ensure_ascii=False).encode(), view[end:]))


def _spans(body: bytes) -> _Spans:
    """Find the top-level values that are of interest, by the fast reader or else by the lenient one."""
    start = _first_byte(body)
    _check_text(body)
    if start != b"{":
        text = body.decode()
        _parse_value(text, _skip(text, 0))
        raise BadRequest("The request body must be a JSON object.", code="invalid_body")
    _check_depth(body)
    try:
        raws = _RAW_OBJECT.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # lone surrogates are JSON, though msgspec refuses them; for anything else this reader says what is wrong
        return _lenient_spans(body)
    if len(raws) > MAX_KEYS:
        _refuse_many_keys()
    return _fast_spans(body, raws)


def _first_byte(body: bytes) -> bytes:
    """Return the first byte that counts, or raise for a body that has none or starts with a byte-order mark."""
    if body.startswith(_BOM):
        raise BadRequest("The request body starts with a byte-order mark; send plain UTF-8.", code="invalid_json")
    match = _SPACE.match(body)
    at = match.end() if match else 0
    if at == len(body):
        raise BadRequest("The request body is empty; send a JSON object.", code="invalid_json")
    return body[at : at + 1]


def _check_text(body: bytes) -> None:
    """Raise unless the body is UTF-8: msgspec does not look inside the values it skips."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as err:
        message = f"The request body is not valid UTF-8 (byte {err.start})."
        raise BadRequest(message, code="invalid_json") from None


def _check_depth(body: bytes) -> None:
    """Raise if the body is nested deeper than MAX_DEPTH; linear, and two counts for a body with few brackets."""
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > MAX_DEPTH:
        _refuse_depth()


def _fast_spans(body: bytes, raws: dict[str, msgspec.Raw]) -> _Spans:
    """Walk over the top level of a body known to be valid, stepping over each value by its known length.

    `raws` holds the *last* value of a repeated key. Each value is compared with the bytes where it should stand, so a
    repeated key cannot lead the walk astray: either the bytes differ, or they agree and its second place is reached.
    """
    spans: _Spans = {}
    at = body.index(b"{") + 1
    while key_match := _KEY.match(body, at):
        raw = key_match[1]
        key = _TEXT.decode(raw) if b"\\" in raw else raw[1:-1].decode()
        start = key_match.end()
        value = bytes(raws[key])
        end = start + len(value)
        after = _AFTER.match(body, end)
        if key in spans or after is None or not body.startswith(value, start):
            _refuse_duplicate(key)
        spans[key] = (start, end)
        at = after.end()
    return spans


def _lenient_spans(body: bytes) -> _Spans:
    """Do the same with Python's own reader, which takes lone surrogates; offsets are turned back into bytes."""
    text = body.decode()
    spans: _Spans = {}
    seen: set[str] = set()
    for key, start, end in _members(text):
        if key in seen:
            _refuse_duplicate(key)
        if len(seen) == MAX_KEYS:
            _refuse_many_keys()
        seen.add(key)
        if key in _WANTED:
            first = len(text[:start].encode())
            spans[key] = (first, first + len(text[start:end].encode()))
    return spans


def _members(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (key, start, end of its value) for each member of the object that `text` holds."""
    at = _skip(text, text.index("{") + 1)
    if text[at : at + 1] != "}":
        while True:
            if text[at : at + 1] != '"':
                _refuse_json("a key in double quotes was expected", at)
            key, at = _parse_value(text, at)
            at = _expect(text, at, ":")
            start = _skip(text, at)
            _, at = _parse_value(text, start)
            yield key, start, at
            at = _skip(text, at)
            if text[at : at + 1] == "}":
                break
            at = _skip(text, _expect(text, at, ","))
    at = _skip(text, at + 1)
    if at != len(text):
        _refuse_json("there is more after the object", at)


def _skip(text: str, at: int) -> int:
    match = _TEXT_SPACE.match(text, at)
    return match.end() if match else at


def _expect(text: str, at: int, sign: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != sign:
        _refuse_json(f"'{sign}' was expected", at)
    return at + 1


def _parse_value(text: str, at: int) -> tuple[Any, int]:
    """Read one JSON value at `at`; numbers stay text, as int() refuses more than 4,300 digits."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=str, parse_float=str)
    try:
        return decoder.raw_decode(text, at)
    except RecursionError:
        _refuse_depth()
    except json.JSONDecodeError as err:
        _refuse_json(err.msg, err.pos)


def _model(body: bytes, spans: _Spans) -> str:
    span = spans.get("model")
    if span is None:
        raise BadRequest("The request names no `model`.", code="missing_model", param="model")
    model = _optional_string(body, span)
    if not model:
        raise BadRequest("`model` must be a non-empty string.", code="missing_model", param="model")
    if not model.isascii() and any("\ud800" <= char <= "\udfff" for char in model):
        raise BadRequest("`model` holds half of a surrogate pair.", code="invalid_body", param="model")
    return model


def _stream(body: bytes, spans: _Spans) -> bool:
    start, end = spans.get("stream", (0, 0))
    value = body[start : min(end, start + 6)]
    if value not in {b"", b"true", b"false", b"null"}:
        raise BadRequest("`stream` must be true or false.", code="invalid_body", param="stream")
    return value == b"true"


def _optional_string(body: bytes, span: tuple[int, int] | None) -> str | None:
    """Decode the value at `span` if it is a string, else None."""
    if span is None or body[span[0] : span[0] + 1] != b'"':
        return None
    raw = body[span[0] : span[1]]
    return str(json.loads(raw)) if b"\\" in raw else raw[1:-1].decode()


def _refuse_constant(name: str) -> NoReturn:
    raise BadRequest(f"The request body is not valid JSON: {name} is no JSON value.", code="invalid_json")


def _refuse_json(what: str, at: int) -> NoReturn:
    raise BadRequest(f"The request body is not valid JSON: {what} (character {at}).", code="invalid_json")


def _refuse_depth() -> NoReturn:
    raise BadRequest(f"The request body is nested deeper than {MAX_DEPTH} levels.", code="invalid_json")


def _refuse_duplicate(key: str) -> NoReturn:
    is_name = key.isascii() and key.isidentifier() and len(key) <= 80  # what is none may be a secret in the wrong place
    shown = f"The key `{key}`" if is_name else "A key that is no plain name"
    raise BadRequest(f"{shown} stands twice at the top level of the request body.", code="invalid_body")


def _refuse_many_keys() -> NoReturn:
    raise BadRequest(f"The request body has more than {MAX_KEYS} top-level keys.", code="invalid_body")
