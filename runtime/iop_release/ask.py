"""One GET, as the gates of a deploy use it: what answers at an address, if anything."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Any
from urllib import error, request


def ask(url: str, timeout: float = 5.0) -> dict[str, Any]:
    """`status` (0 when nothing answers), `json` (None when the body is none) and `reason`. Uses no proxy."""
    opener = request.build_opener(request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout) as answer:
            return {"status": answer.status, "json": _json(answer.read()), "reason": ""}
    except error.HTTPError as refusal:
        with refusal:
            return {"status": refusal.code, "json": None, "reason": str(refusal)}
    except (OSError, ValueError, HTTPException) as problem:
        return {"status": 0, "json": None, "reason": str(problem)}


def _json(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(body)
    except ValueError:
        return None
