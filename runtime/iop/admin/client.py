"""Typed clients of the admin API of an Edge and of the Control Plane, synchronous.

They ignore proxy settings of the environment: a proxy variable must not break loopback.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

import httpx

from iop.admin.wire import (
    DEFAULT_TIMEOUT_S,
    EVENT_SILENCE_S,
    AdminRefused,
    AdminUnreachable,
    ServerEvent,
    read_events,
    read_object,
    unreachable,
)

__all__ = ["AdminClient", "AdminRefused", "AdminUnreachable", "ControlClient", "RefreshAnswer", "ServerEvent"]

RefreshMode = Literal["dry-run", "apply"]


@dataclass(frozen=True, slots=True)
class RefreshAnswer:
    """The answer to a refresh: HTTP status (200 planned or applied, 409 generation moved on, 422 findings), JSON."""

    status: int
    body: Mapping[str, Any]

    @property
    def refused(self) -> bool:
        """True when the candidate was rejected or the generation did not match."""
        return self.status != 200

    @property
    def restart_required(self) -> bool:
        """True when some change needs a restart (an apply then changed nothing)."""
        return bool(self.body.get("restart_required"))

    @property
    def unacknowledged(self) -> tuple[str, ...]:
        """Connected nodes that got the config and did not acknowledge it in time."""
        return tuple(str(node["id"]) for node in self.body.get("nodes", ()) if not node["acknowledged"])


class _Client:
    """One base URL, one connection pool, errors in words."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(
            base_url=self.base_url, headers=headers, timeout=timeout, trust_env=False, transport=transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        try:
            return self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise unreachable(self.base_url, error) from error

    def _get(self, path: str) -> dict[str, Any]:
        return read_object(self._call("GET", path))

    @contextlib.contextmanager
    def _stream(self, path: str, last_event_id: int | None, silence: float) -> Iterator[Iterator[ServerEvent]]:
        headers = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
        timeout = httpx.Timeout(self._http.timeout, read=silence)
        try:
            with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                    read_object(response)
                yield self._events(response)
        except httpx.HTTPError as error:
            raise unreachable(self.base_url, error) from error

    def _events(self, response: httpx.Response) -> Iterator[ServerEvent]:
        try:
            yield from read_events(response.iter_lines())
        except httpx.HTTPError as error:
            raise unreachable(self.base_url, error) from error


class AdminClient(_Client):
    """The admin API of one Edge. `timeout` in seconds for one call.

    Every method raises AdminUnreachable when nobody (or not iop) answers, and AdminRefused when the Edge says no.
    """

    def status(self) -> dict[str, Any]:
        """Return the status JSON (`schema: 1`)."""
        return self._get("/status")

    def refresh(
        self, mode: RefreshMode, text: str, source: str, *, expect_generation: int | None = None
    ) -> RefreshAnswer:
        """Plan or apply the config `text`, read from the absolute path `source`.

        A rejected candidate is an answer, not an exception; a wrong token is AdminRefused.
        """
        body: dict[str, Any] = {"mode": mode, "config": text, "source": source}
        if expect_generation is not None:
            body["expect_generation"] = expect_generation
        response = self._call("POST", "/config/refresh", body)
        if response.status_code in (409, 422) and _is_plan(response):
            return RefreshAnswer(response.status_code, response.json())
        return RefreshAnswer(response.status_code, read_object(response))

    def drain(self, node_id: str, *, lease_s: float, by: str, reason: str) -> dict[str, Any]:
        """Let the node take no new work for `lease_s` seconds, or until `undrain`; calling again renews."""
        path = f"/nodes/{quote(node_id, safe='')}/drain"
        return read_object(self._call("PUT", path, {"lease_s": lease_s, "by": by, "reason": reason}))

    def undrain(self, node_id: str) -> dict[str, Any]:
        """End the node's drain; no drain is no error."""
        return read_object(self._call("DELETE", f"/nodes/{quote(node_id, safe='')}/drain"))

    @contextlib.contextmanager
    def events(
        self, last_event_id: int | None = None, *, silence: float = EVENT_SILENCE_S
    ) -> Iterator[Iterator[ServerEvent]]:
        """Open the event stream: `with client.events(n) as events: for event in events: …`.

        Without an id it starts with what happens after the `with` was entered. `silence` is the longest time
        (seconds) without a byte before AdminUnreachable is raised.
        """
        with self._stream("/events", last_event_id, silence) as events:
            yield events


class ControlClient(_Client):
    """The Control Plane's read-only API. Same errors as AdminClient; an unknown Edge is AdminRefused with status 404."""

    def edges(self) -> list[dict[str, Any]]:
        """Return the known Edges: `[{id, reachable, age_s}]`."""
        edges = self._get("/edges").get("edges")
        if not isinstance(edges, list):
            raise AdminUnreachable(f"{self.base_url}/edges answered without a list of edges: is that iop-control?")
        return edges

    def status(self, edge_id: str) -> dict[str, Any]:
        """Return an Edge's status with `control {fetched_at, age_s, stale}`."""
        return self._get(f"/edges/{quote(edge_id, safe='')}/status")

    @contextlib.contextmanager
    def events(
        self, edge_id: str, last_event_id: int | None = None, *, silence: float = EVENT_SILENCE_S
    ) -> Iterator[Iterator[ServerEvent]]:
        """Open an Edge's event stream through the Control Plane, as `AdminClient.events` does directly."""
        with self._stream(f"/edges/{quote(edge_id, safe='')}/events", last_event_id, silence) as events:
            yield events


def _is_plan(response: httpx.Response) -> bool:
    """Tell the refresh JSON (which has `findings`) from an error object with the same status."""
    try:
        body = response.json()
    except ValueError:
        return False
    return isinstance(body, dict) and "findings" in body
