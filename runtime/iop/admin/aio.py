"""The asynchronous reader of an Edge's admin API, for the Control Plane."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from iop.admin.wire import EVENT_SILENCE_S, read_object, refusal_of, unreachable

#: seconds for one status; a person waits for it
STATUS_TIMEOUT_S = 2.0


class AsyncAdminReader:
    """Reads one Edge. Ignores proxy settings of the environment. Raises AdminUnreachable and AdminRefused."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout: float = STATUS_TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._http = httpx.AsyncClient(
            base_url=self.base_url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=timeout,
            # a page that is looked at holds a stream; however many there are, the next status finds a connection
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=4),
            trust_env=False,
            verify=tls if tls is not None else True,
            transport=transport,
        )

    async def status(self) -> dict[str, Any]:
        """Return the status JSON."""
        try:
            return read_object(await self._http.get("/status"))
        except httpx.HTTPError as error:
            raise unreachable(self.base_url, error) from error

    @asynccontextmanager
    async def events(self, last_event_id: str | None) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open the event stream and yield its bytes as they come, until the Edge ends it or 60 s pass in silence."""
        headers = {"Accept-Encoding": "identity"}  # the bytes are passed on as they come
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        request = self._http.build_request("GET", "/events", headers=headers, timeout=EVENT_SILENCE_S)
        try:
            response = await self._http.send(request, stream=True)
        except httpx.HTTPError as error:
            raise unreachable(self.base_url, error) from error
        try:
            if not response.is_success:
                await response.aread()
                raise refusal_of(response)
            yield self._chunks(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.aiter_raw():
                yield chunk
        except httpx.HTTPError as error:
            raise unreachable(self.base_url, error) from error
