"""Builds the Control Plane from control.yaml and runs it."""

import hashlib
import hmac
import time
from collections.abc import Callable
from pathlib import Path

from iop.admin.aio import AsyncAdminReader
from iop.config.models import Auth, ControlConfig, WatchedEdge
from iop.control.app import build_app
from iop.control.views import Clock, EdgeView, Views
from iop.transport.hosts import HostRule
from iop.transport.http_server import Listener, listen
from iop.transport.listening import join_address
from iop.transport.tasks import TaskSet
from iop.transport.tls import client_context
from iop.wiring.edge import server_tls

#: seconds that open answers get at stop; event streams end at once
STOP_WITHIN_S = 2.0


class ControlService:
    """A Control Plane process: polls its Edges and serves the views."""

    def __init__(self, config: ControlConfig) -> None:
        self._config = config
        clock = Clock(time.monotonic, time.time)
        self._views = Views(EdgeView(edge.id, _reader(edge), clock) for edge in config.edges)
        self._tasks = TaskSet()
        self._app = build_app(self._views, HostRule([config.listen.host]), token_check(config.auth))
        self._listener: Listener | None = None

    async def start(self) -> str:
        """Bind and start polling; return the ready line. Raises PortBusy."""
        where, tls = self._config.listen, server_tls(self._config.tls)
        listener = await listen(self._app, where.host, where.port, tls, stop_within=STOP_WITHIN_S)
        self._listener = listener
        for view in self._views.all():  # each at its own pace: a silent Edge does not delay the others
            self._tasks.start(view.poll(), name=f"poll {view.id}")
        return f"ready control={join_address(listener.host, listener.port)}"

    async def drain(self) -> None:
        """Nothing to finish: it only reads."""

    async def stop(self) -> None:
        """End streams, close the port and the connections to the Edges."""
        await self._tasks.close()
        if self._listener is not None:
            await self._listener.close()
        await self._views.close()


def _reader(edge: WatchedEdge) -> AsyncAdminReader:
    token = Path(edge.token_file).read_text(encoding="utf-8").strip() if edge.token_file else None
    tls = client_context(edge.ca_file) if edge.ca_file else None
    return AsyncAdminReader(edge.admin_url, token=token, tls=tls)


def token_check(auth: Auth) -> Callable[[str], bool]:
    """Return what knows the tokens of `auth`: the admin token and every API key. Raises OSError when it is unreadable.

    Every one is compared, so that the time tells nothing.
    """
    hashes = [key.sha256 for key in auth.api_keys]
    if auth.admin_token_file is not None:
        token = Path(auth.admin_token_file).read_bytes().strip()
        hashes.append(hashlib.sha256(token).hexdigest())

    def accepts(token: str) -> bool:
        given = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
        return sum(hmac.compare_digest(given, known) for known in hashes) > 0

    return accepts
