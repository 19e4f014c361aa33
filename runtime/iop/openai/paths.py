"""The public paths: which spellings are accepted, and which path to name when another was asked for."""

import re
from typing import Literal

from iop.domain.errors import NotFound

Operation = Literal["chat.completions", "responses"]

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
MODELS = "/v1/models"
DESCRIPTION = "/openapi.json"

#: which operation a POST to a path asks for
OPERATIONS: dict[str, Operation] = {CHAT: "chat.completions", RESPONSES: "responses"}
#: methods of each public path, for `Allow`
METHODS: dict[str, tuple[str, ...]] = {
    CHAT: ("POST",),
    RESPONSES: ("POST",),
    MODELS: ("GET", "HEAD"),
    "/healthz": ("GET", "HEAD"),
    "/readyz": ("GET", "HEAD"),
    DESCRIPTION: ("GET", "HEAD"),
}

_MODEL = re.compile(r"/+v1/+models/+(?P<id>.*[^/])/*", re.DOTALL)
_PUBLIC = "GET /v1/models, GET /v1/models/{id}, POST /v1/chat/completions, POST /v1/responses"
_SHOWN = 200


def clean_path(path: str) -> str:
    """Return the accepted spelling of a (decoded) path: doubled slashes made one, a trailing one dropped.

    A model id behind `/v1/models/` keeps its own slashes. What is wrong otherwise stays as it is.
    """
    if path in METHODS:
        return path
    if match := _MODEL.fullmatch(path):
        return f"{MODELS}/{match['id']}"
    return re.sub("/{2,}", "/", path).rstrip("/") or "/"


def model_id(path: str) -> str | None:
    """Return the id that a clean path `/v1/models/{id}` names, slashes included; None for another path."""
    return path.removeprefix(f"{MODELS}/") if path.startswith(f"{MODELS}/") else None


def methods(path: str) -> tuple[str, ...]:
    """Return the methods that a clean path answers, in the order for `Allow`; empty if the path is unknown."""
    return METHODS[MODELS] if model_id(path) is not None else METHODS.get(path, ())


def right_path(path: str) -> str | None:
    """Guess which public path was meant by a wrong one, or None."""
    parts = [part for part in path.lower().split("/") if part]
    tail = parts[-1] if parts else ""
    if tail == "completions":
        return CHAT
    if tail == "responses":
        return RESPONSES
    if "models" in parts:
        return _right_model_path(path)
    return {"health": "/healthz", "healthz": "/healthz", "ready": "/readyz", "readyz": "/readyz"}.get(tail)


def not_found(path: str) -> NotFound:
    """Return the 404 for a path that does not exist here, naming the right one."""
    shown = path[:_SHOWN].encode("ascii", "backslashreplace").decode()
    right = right_path(path)
    hint = f"Use {right} (base URL: http://HOST:PORT/v1)." if right else f"There are: {_PUBLIC}."
    return NotFound(f"There is no path {shown} here. {hint}", code="not_found")


def _right_model_path(path: str) -> str:
    """Keep what follows the last `models` as the id, in its own case; a wrong path never names a long one."""
    found = re.split(r"/models(?:/+|$)", path, flags=re.IGNORECASE)[-1].strip("/")
    shown = found[:_SHOWN].encode("ascii", "backslashreplace").decode()
    return f"{MODELS}/{shown}" if shown else MODELS
