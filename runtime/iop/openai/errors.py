"""OpenAI's error shape for the failures that iop itself reports."""

import json
from typing import Any

from iop.domain.errors import IopError

#: characters of a message that are sent; a message may quote the client's model name or an agent's last line
MAX_MESSAGE = 2000

_ALWAYS_RETRY_AFTER = frozenset({429, 503})


def error_object(error: IopError) -> dict[str, Any]:
    """Return the object that stands under `error`: message, type, param, code."""
    return {"message": shortened(error.message), "type": error.type, "param": error.param, "code": error.code}


def shortened(text: str) -> str:
    """Return a text of an error, cut to `MAX_MESSAGE` characters."""
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def envelope(error: IopError) -> bytes:
    """Return the JSON body of an error answer. ASCII only, so that no text in a message can fail to encode."""
    return json.dumps({"error": error_object(error)}, separators=(",", ":")).encode("ascii")


def headers(error: IopError) -> tuple[tuple[str, str], ...]:
    """Return the headers that belong to an error answer: Content-Type, and Retry-After (whole seconds, >= 1) where
    the status or the error asks for it, WWW-Authenticate for 401.
    """
    found = [("Content-Type", "application/json")]
    if error.retry_after is not None or error.status in _ALWAYS_RETRY_AFTER:
        found.append(("Retry-After", str(max(1, int(error.retry_after or 1)))))
    if error.status == 401:
        found.append(("WWW-Authenticate", "Bearer"))
    return tuple(found)
