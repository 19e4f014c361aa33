"""The node's loopback HTTP port: what it is and does, whether it lives, and a way to stop it without signals."""

import contextlib
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from iop.domain.errors import IopError, Unauthorized
from iop.transport.callers import bearer_token, same_token
from iop.transport.hosts import HostRule
from iop.transport.http_border import error_middleware, host_middleware
from iop.transport.http_server import Listener, listen
from iop.transport.listening import join_address

_HOSTS = HostRule()


@dataclass(frozen=True, slots=True)
class StopToken:
    """The secret that `POST /stop` wants, and the file (0600) where an operator of this host finds it."""

    path: Path
    value: str

    @classmethod
    def make(cls, folder: Path, node_id: str) -> "StopToken":
        """Write a new token to `<folder>/<node id>.stop-token`, made whole before it has its name. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{node_id}.stop-token"
        value = secrets.token_urlsafe(32)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(value + "\n")
        fresh.replace(path)
        return cls(path, value)

    def remove(self) -> None:
        """Take the file away; the token is of no use to a later process."""
        with contextlib.suppress(OSError):
            if self.path.read_text(encoding="ascii").strip() == self.value:
                self.path.unlink()


class NotAvailable(IopError):
    """This node cannot be stopped over HTTP (403)."""

    status = 403
    type = "invalid_request_error"
    default_code = "not_available"


class StatusServer:
    """Serves GET /status, GET /healthz and POST /stop. While `token` is None there is no stopping it by HTTP."""

    def __init__(
        self,
        picture: Callable[[], Mapping[str, object]],
        request_stop: Callable[[], object],
    ) -> None:
        self._picture = picture
        self._request_stop = request_stop
        self.token: StopToken | None = None
        self._app = web.Application(middlewares=[error_middleware, host_middleware(_HOSTS)])
        self._app.router.add_get("/status", self._status)
        self._app.router.add_get("/healthz", self._healthz)
        self._app.router.add_post("/stop", self._stop)
        self._listener: Listener | None = None

    async def start(self, host: str, port: int) -> str:
        """Listen (port 0 = any free one) and return the real `host:port`.

        Raises PortBusy when the port is taken, ValueError when the host is not loopback.
        """
        if not _HOSTS.allows(join_address(host, port)):
            raise ValueError(f"status_listen {join_address(host, port)} is not a loopback address")
        self._listener = await listen(self._app, host, port)
        return join_address(self._listener.host, self._listener.port)

    async def close(self) -> None:
        """Stop listening. Safe to call twice."""
        if self._listener is not None:
            await self._listener.close()

    async def _status(self, _request: web.Request) -> web.Response:
        return web.json_response(dict(self._picture()))

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _stop(self, request: web.Request) -> web.Response:
        if self.token is None:
            raise NotAvailable("This node has no state_dir for its stop token.")
        if not same_token(bearer_token(request) or "", self.token.value):
            raise Unauthorized("POST /stop wants the token of the stop-token file in state_dir.")
        self._request_stop()
        return web.json_response({"stopping": True}, status=202)
