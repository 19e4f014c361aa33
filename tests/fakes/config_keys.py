"""Walks the models of the config files: every key with its section."""

from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel


def plain_types(annotation):
    """The types inside an annotation, without Annotated and unions."""
    if get_origin(annotation) is Annotated:
        yield from plain_types(get_args(annotation)[0])
    elif get_origin(annotation) in {Union, UnionType}:
        for inner in get_args(annotation):
            yield from plain_types(inner)
    else:
        yield annotation


def keys(model, where=""):
    """Every key of a model as (path, model, name), sections taken apart: `nodes[].providers[].id`."""
    for name, field in model.model_fields.items():
        inner = []
        for kind in plain_types(field.annotation):
            origin = get_origin(kind)
            suffix = "[]" if origin is tuple else ".*" if origin is dict else ""
            member = get_args(kind)[1 if origin is dict else 0] if origin in {tuple, dict} else kind
            inner += [
                (suffix, one) for one in plain_types(member) if isinstance(one, type) and issubclass(one, BaseModel)
            ]
        for suffix, section in inner:
            yield from keys(section, f"{where}{name}{suffix}.")
        if not inner:
            yield f"{where}{name}", model, name
