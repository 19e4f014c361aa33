"""The admin API of an Edge as a rolling deploy uses it: drain a node, wait, look at who it is, check its providers.

The admin token is read from its file at each call and is in no message, result or argument.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib import error, request
from urllib.parse import quote

from iop_release.errors import ReleaseError

DEPLOYER = "iop-deploy"  # `by` of the leases that a deploy takes; another deploy may end those
_PATIENCE_S = 10.0  # for calls that do no work
_POLL_S = 0.25


@dataclass(frozen=True)
class Admin:
    """One admin port. `token_file` may be missing where nothing is changed."""

    url: str
    token_file: Path | None = None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def status(self) -> dict[str, Any]:
        """The Edge's status. Raises `ReleaseError` when it does not answer."""
        code, body, reason = self.call("GET", "/status")
        if code != 200 or not isinstance(body, dict):
            raise ReleaseError(f"{self.url}/status answers {code or 'nothing'}: {reason}", "fab status; then deploy")
        return body

    def drain(self, node_id: str, lease_s: float, reason: str, by: str = DEPLOYER) -> None:
        """Hand the node no new work for `lease_s` seconds; again renews. Raises `ReleaseError`."""
        self._must("PUT", f"/nodes/{quote(node_id, safe='')}/drain", {"lease_s": lease_s, "by": by, "reason": reason})

    def undrain(self, node_id: str) -> None:
        """End the node's drain, whoever asked for it. Raises `ReleaseError`."""
        self._must("DELETE", f"/nodes/{quote(node_id, safe='')}/drain")

    def check(self, provider_id: str, model: str, wait_s: float) -> dict[str, Any]:
        """One small answer of this provider, drained or not: `ok`, `attempts`, `seconds`, and `said` when it failed.

        Tried again until `wait_s` seconds are over while the provider is not there yet (503), as after a restart.
        """
        began, attempts = self.clock(), 0
        body = {"model": model, "messages": [{"role": "user", "content": "Say ok."}], "max_tokens": 8}
        while True:
            attempts += 1
            left = wait_s - (self.clock() - began)
            path = f"/providers/{quote(provider_id, safe='')}/v1/chat/completions"
            code, answer, reason = self.call("POST", path, body, max(1.0, left))
            spent = round(self.clock() - began, 1)
            good = code == 200 and isinstance(answer, dict) and bool(answer.get("choices"))
            if good or code not in (0, 503) or spent >= wait_s:
                said = "" if good else _said(code, answer, reason)
                return {"ok": good, "attempts": attempts, "seconds": spent, "said": said}
            self.sleep(_POLL_S)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout: float = _PATIENCE_S
    ) -> tuple[int, Any, str]:
        """Status (0 when nothing answers), JSON of the body (None when it is none), reason in words."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if method != "GET" and self.token_file is not None:
            headers["Authorization"] = f"Bearer {self._token()}"
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.url.rstrip('/')}{path}"
        asked = request.Request(url, data=data, headers=headers, method=method)  # noqa: S310 - the Edge's own address
        opener = request.build_opener(request.ProxyHandler({}))
        try:
            with opener.open(asked, timeout=timeout) as answer:
                return answer.status, _json(answer.read()), ""
        except error.HTTPError as refusal:
            with refusal:
                return refusal.code, _json(refusal.read()), str(refusal)
        except (OSError, ValueError, HTTPException) as problem:
            return 0, None, str(problem)

    def _must(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        code, answer, reason = self.call(method, path, body)
        if code != 200:
            said = _said(code, answer, reason)
            hint = f"the token of this Edge is in {self.token_file}" if code == 401 else "fab status tells what runs"
            raise ReleaseError(f"{method} {self.url}{path} failed: {said}", hint)

    def _token(self) -> str:
        assert self.token_file is not None
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except OSError as problem:
            raise ReleaseError(f"no admin token: {problem}", "the Edge writes it at its first start") from problem


def _said(code: int, answer: Any, reason: str) -> str:  # noqa: ANN401 - any JSON
    told = answer.get("error") if isinstance(answer, dict) else None
    text = told.get("message") if isinstance(told, dict) else None
    return f"{code or 'no answer'}: {text or reason or 'not an answer of a chat model'}"


def _json(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(body)
    except ValueError:
        return None
