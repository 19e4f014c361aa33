"""The list of models in OpenAI's shape."""

from collections.abc import Iterable
from typing import Any


def model_object(model_id: str, created: int) -> dict[str, Any]:
    """Return one model; `created` is in Unix seconds."""
    return {"id": model_id, "object": "model", "created": created, "owned_by": "iop"}


def model_list(model_ids: Iterable[str], created: int, *, for_codex: bool = False) -> dict[str, Any]:
    """Return the list of models, in the order given.

    `for_codex` (a request with `?client_version=`) adds the top-level `models` that Codex looks for, empty: iop has
    no such metadata, and a half-filled entry would make Codex refuse the list.
    """
    listed: dict[str, Any] = {"object": "list", "data": [model_object(each, created) for each in model_ids]}
    if for_codex:
        listed["models"] = []
    return listed
