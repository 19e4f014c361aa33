"""An engine's own error answer, in the shapes that engines use, as the four fields of OpenAI's error object."""

import json
from dataclasses import dataclass

#: characters of an error page that are repeated
MAX_TEXT = 500


@dataclass(frozen=True, slots=True)
class ToldError:
    """What an engine told; None where it told nothing of the kind."""

    message: str | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None


def told_error(content_type: str, body: bytes) -> ToldError:
    """Read the body of an error answer; never raises.

    Understood are `{"error": {…}}` (OpenAI, vLLM, llama.cpp), `{"error": "text"}` (MLX), `{"object": "error", …}`
    (older vLLM), `{"message": …}` and `{"detail": …}` (FastAPI), and text. A page of HTML tells nothing.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        is_page = "html" in content_type or body.lstrip().startswith(b"<")
        text = "" if is_page else body.decode("utf-8", "replace").strip()
        return ToldError(message=text[:MAX_TEXT] or None)
    inner = (value.get("error") or value) if isinstance(value, dict) else value
    if not isinstance(inner, dict):
        return ToldError(message=_text(inner))
    message = inner.get("message") or inner.get("detail")
    return ToldError(_text(message), _text(inner.get("type")), _text(inner.get("code")), _text(inner.get("param")))


def is_error(body: bytes) -> bool:
    """Return whether a body is an error object though its status may say otherwise."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and bool(value.get("error") or value.get("object") == "error")


def _text(value: object) -> str | None:
    """Return a field as text: a code may be a number, FastAPI's detail a list."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else json.dumps(value)
