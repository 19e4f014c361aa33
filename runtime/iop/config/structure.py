"""Structure: a document against its model. Unknown and missing keys, exact types, each with place and next step."""

import difflib
import re
import types
from collections.abc import Callable, Iterator
from typing import Annotated, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from iop.config.document import Document, Odd, Path, Tree
from iop.config.findings import Finding

M = TypeVar("M", bound=BaseModel)

_SECRET_KEY = re.compile(r"(^|_)(token|secret|password|passwd|apikey|api_key|key|authorization|sha256)$")
_EXPECTED = {
    "string_type": "text",
    "int_type": "an integer",
    "bool_type": "true or false",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
    "tuple_type": "a list",
}


def read_model(
    document: Document, model: type[M], resolve: Callable[[str], str] | None = None
) -> tuple[M | None, tuple[Finding, ...]]:
    """Validate the document; `resolve` makes paths of this machine absolute. None when there is any finding."""
    try:
        return model.model_validate(document.data, context=resolve), ()
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return None, tuple(_finding(document, model, details) for details in found)


def _finding(document: Document, model: type[BaseModel], details: ErrorDetails) -> Finding:
    path = tuple(part for part in details["loc"] if part != "[key]")
    on_key = details["loc"][-1:] == ("[key]",)
    kind = details["type"]
    if kind == "extra_forbidden":
        return _unknown_key(document, model, path)
    if kind == "missing":
        message = f"the key {path[-1]} is missing"
        return document.finding("error", "missing_key", path, message, f"add the key {path[-1]}")
    if kind in _EXPECTED:
        return _wrong_type(document, path, _EXPECTED[kind])
    if kind == "value_error":
        message = str(details["ctx"]["error"])
        return _wrong_value(document, path, message)
    return _wrong_value(document, path, _sentence(details), key=on_key)


def _wrong_type(document: Document, path: Path, expected: str) -> Finding:
    value = _value(document.data, path)
    plain = document.plain.get(path)
    if expected == "text" and plain and _is_secret(str(path[-1])):
        return document.finding("error", "quote_it", path, f"expected text, found {_kind(value)}", "quote it")
    if expected == "text" and plain:
        message = f"expected text, but YAML reads {_clip(plain)} as {_kind(value)}"
        return document.finding("error", "quote_it", path, message, f'quote it: "{_clip(plain)}"')
    if isinstance(value, Odd):
        message = f"expected {expected}, but YAML reads {_clip(value.text)} as {value.reading}"
        return document.finding("error", "wrong_type", path, message, "write it in plain decimal digits")
    hint = "fill it or remove the key" if value is None else ""
    return document.finding("error", "wrong_type", path, f"expected {expected}, found {_kind(value)}", hint)


def _wrong_value(document: Document, path: Path, message: str, *, key: bool = False) -> Finding:
    value = _value(document.data, path)
    if isinstance(value, Odd):
        hint = f"YAML reads {_clip(value.text)} as {value.reading}"
        return document.finding("error", "wrong_type", path, message, hint)
    code = "secret_in_config" if "secret" in message else "wrong_value"
    hint = ""
    if code == "secret_in_config":
        hint = "keep the secret in a file of mode 0600, or store its SHA-256"
    return document.finding("error", code, path, message, hint, key=key)


def _sentence(details: ErrorDetails) -> str:
    """Pydantic's message, with the sentences that our people read more often put in their words."""
    ctx = details.get("ctx", {})
    kind = details["type"]
    if kind == "literal_error" and str(details["loc"][-1]) == "category":
        return "the only category is 'local_inference'"
    if kind == "literal_error":
        return f"expected one of {ctx['expected']}"
    if kind == "greater_than_equal":
        return f"must be {ctx['ge']} or more"
    if kind == "string_pattern_mismatch":
        return f"must match {ctx['pattern']}"
    if kind in {"too_short", "string_too_short"}:
        return "must not be empty"
    return details["msg"]


def _unknown_key(document: Document, model: type[BaseModel], path: Path) -> Finding:
    name = str(path[-1])
    known = sorted({key for section in _sections_at(model, path[:-1]) for key in section.model_fields})
    message = f"unknown key {_clip(name)}"
    near = nearest(_snake(name), known)
    if _is_secret(name) and isinstance(_value(document.data, path), str):
        hint = f"secrets stand in files or as a SHA-256; known here: {', '.join(known)}"
        return document.finding("error", "secret_in_config", path, message, hint, key=True)
    if near is not None:
        return document.finding("error", "unknown_key", path, message, f"did you mean {near}?", key=True)
    places = sorted({where for where, section in _all_sections(model, "") if _snake(name) in section.model_fields})
    if places:
        hint = f"it belongs under {' or '.join(places)}: check the indentation"
        return document.finding("error", "unknown_key", path, message, hint, key=True)
    return document.finding("error", "unknown_key", path, message, f"known here: {', '.join(known)}", key=True)


def nearest(name: str, known: list[str]) -> str | None:
    """The known word that looks most like `name`, or None."""
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return found[0] if found else None


def _is_secret(name: str) -> bool:
    """True when a key of this name would hold a secret; its value is never shown."""
    return _SECRET_KEY.search(_snake(name)) is not None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")


def _clip(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _kind(value: object) -> str:
    if isinstance(value, Odd):
        return value.reading
    names: tuple[tuple[type, str], ...] = (
        (bool, "true/false"),
        (int, "a number"),
        (float, "a decimal number"),
        (str, "text"),
        (list, "a list"),
        (dict, "a mapping"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "nothing")


def _value(data: Tree, path: Path) -> Tree:
    for part in path:
        if isinstance(data, dict) and isinstance(part, str):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def _unwrap(annotation: object) -> Iterator[object]:
    """The plain types inside an annotation, without Annotated and unions."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _unwrap(get_args(annotation)[0])
    elif origin in {Union, types.UnionType}:
        for inner in get_args(annotation):
            yield from _unwrap(inner)
    else:
        yield annotation


def _inside(annotation: object, part: str | int) -> Iterator[object]:
    """What an annotation says about its member `part`."""
    for plain in _unwrap(annotation):
        origin = get_origin(plain)
        if origin is tuple:
            yield from _unwrap(get_args(plain)[0])
        elif origin is dict:
            yield from _unwrap(get_args(plain)[1])
        elif isinstance(plain, type) and issubclass(plain, BaseModel) and part in plain.model_fields:
            yield from _unwrap(plain.model_fields[str(part)].annotation)


def _sections_at(model: type[BaseModel], path: Path) -> list[type[BaseModel]]:
    here: list[object] = [model]
    for part in path:
        here = [inner for annotation in here for inner in _inside(annotation, part)]
    return [kind for kind in here if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _all_sections(model: type[BaseModel], where: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Every section of the file with its place, such as `nodes[].providers[]`."""
    for name, info in model.model_fields.items():
        for plain in _unwrap(info.annotation):
            origin = get_origin(plain)
            suffix = "[]" if origin is tuple else ".*" if origin is dict else ""
            inner = plain if origin is None else get_args(plain)[1 if origin is dict else 0]
            place = f"{where}.{name}{suffix}" if where else f"{name}{suffix}"
            for kind in _unwrap(inner):
                if isinstance(kind, type) and issubclass(kind, BaseModel):
                    yield place, kind
                    yield from _all_sections(kind, place)
