"""Typed clients of the admin API of an Edge and of the Control Plane, synchronous.

They ignore proxy settings of the environment: a proxy variable must not break loopback.
"""

import contextlib
import ssl
from collections.abc import Mapping
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
    refusal_of,
    unreachable,
)

__all__ = [
    "AdminClient",
    "AdminRefused",
    "AdminUnreachable",
    "ControlClient",
    "EventStream",
    "RefreshAnswer",
    "ServerEvent",
]

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
        tls: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(
            base_url=self.base_url,
            headers=headers,
            timeout=timeout,
            trust_env=False,
            verify=True if tls is None else tls,
            transport=transport,
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

    def _stream(self, path: str, last_event_id: int | None, silence: float) -> "EventStream":
        headers = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
        request = self._http.build_request("GET", path, headers=headers, timeout=silence)
        try:
            response = self._http.send(request, stream=True)
            if response.is_success:
                return EventStream(self.base_url, response)
            with contextlib.closing(response):
                response.read()
                raise refusal_of(response)
        except httpx.HTTPError as error:
            raise unreachable(self.base_url, error) from error


class EventStream:
    """An open event stream: an iterator of events and a context manager that closes it.

    Iterating raises AdminUnreachable when the stream breaks or stays silent too long, and ends when the server ends it.
    """

    def __init__(self, base_url: str, response: httpx.Response) -> None:
        self._base_url = base_url
        self._response = response
        self._events = read_events(response.iter_lines())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ServerEvent:
        try:
            return next(self._events)
        except httpx.HTTPError as error:
            raise unreachable(self._base_url, error) from error

    def close(self) -> None:
        """Close the connection."""
        self._response.close()


class AdminClient(_Client):
    """The admin API of one Edge. `timeout` in seconds for one call.

    Every method raises AdminUnreachable when nobody (or not iop) answers, and AdminRefused when the Edge says no.
    """

    def status(self) -> dict[str, Any]:
        """Return the status JSON (`schema: 1`)."""
        return self._get("/status")

    def refresh(
        self,
        mode: RefreshMode,
        text: str,
        source: str,
        *,
        expect_generation: int | None = None,
        ack_timeout_s: float | None = None,
    ) -> RefreshAnswer:
        """Plan or apply the config `text`, read from the absolute path `source`.

        `ack_timeout_s` is how long the Edge waits for its nodes; the client's own timeout must be longer. A rejected
        candidate is an answer, not an exception; a wrong token is AdminRefused.
        """
        body: dict[str, Any] = {"mode": mode, "config": text, "source": source}
        if expect_generation is not None:
            body["expect_generation"] = expect_generation
        if ack_timeout_s is not None:
            body["ack_timeout_s"] = ack_timeout_s
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

    def events(self, last_event_id: int | None = None, *, silence: float = EVENT_SILENCE_S) -> EventStream:
        """Open the event stream: `with client.events(n) as events: for event in events: …`.

        Without an id it starts with what happens after this call. `silence` is the longest time
        (seconds) without a byte before AdminUnreachable is raised.
        """
        return self._stream("/events", last_event_id, silence)


class ControlClient(_Client):
    """The Control Plane's read-only API. Same errors as AdminClient; an unknown Edge is AdminRefused (404)."""

    def edges(self) -> list[dict[str, Any]]:
        """Return the known Edges: `[{id, reachable, age_s}]`."""
        edges = self._get("/edges").get("edges")
        if not isinstance(edges, list):
            raise AdminUnreachable(f"{self.base_url}/edges answered without a list of edges: is that iop-control?")
        return edges

    def status(self, edge_id: str) -> dict[str, Any]:
        """Return an Edge's status with `control {fetched_at, age_s, stale}`."""
        return self._get(f"/edges/{quote(edge_id, safe='')}/status")

    def events(
        self, edge_id: str, last_event_id: int | None = None, *, silence: float = EVENT_SILENCE_S
    ) -> EventStream:
        """Open an Edge's event stream through the Control Plane, as `AdminClient.events` does directly."""
        return self._stream(f"/edges/{quote(edge_id, safe='')}/events", last_event_id, silence)


def _is_plan(response: httpx.Response) -> bool:
    """Tell the refresh JSON (which has `findings`) from an error object with the same status."""
    try:
        body = response.json()
    except ValueError:
        return False
    return isinstance(body, dict) and "findings" in body
