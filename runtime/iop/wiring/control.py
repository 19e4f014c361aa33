"""Builds the Control Plane from control.yaml and runs it."""

import ssl
import time
from pathlib import Path

from aiohttp import web

from iop.admin.aio import AsyncAdminReader
from iop.config.models import ControlConfig, WatchedEdge
from iop.control.app import build_app
from iop.control.views import Clock, EdgeView, Views
from iop.transport.hosts import HostRule
from iop.transport.listening import join_address, listening
from iop.transport.tasks import TaskSet

#: seconds that open answers get at stop; event streams end at once
STOP_WITHIN_S = 2.0


class ControlService:
    """A Control Plane process: polls its Edges and serves the views."""

    def __init__(self, config: ControlConfig) -> None:
        self._config = config
        clock = Clock(time.monotonic, time.time)
        self._views = Views(EdgeView(edge.id, _reader(edge), clock) for edge in config.edges)
        self._tasks = TaskSet()
        app = build_app(self._views, HostRule([config.listen.host]))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_WITHIN_S)

    async def start(self) -> str:
        """Bind and start polling; return the ready line. Raises PortBusy."""
        listen = self._config.listen
        await self._runner.setup()
        with listening(listen.host, listen.port):
            await web.TCPSite(self._runner, listen.host, listen.port, ssl_context=_server_tls(self._config)).start()
        for view in self._views.all():  # each at its own pace: a silent Edge does not delay the others
            self._tasks.start(view.poll(), name=f"poll {view.id}")
        host, port = self._runner.addresses[0][:2]
        return f"ready control={join_address(host, port)}"

    async def drain(self) -> None:
        """Nothing to finish: it only reads."""

    async def stop(self) -> None:
        """End streams, close the port and the connections to the Edges."""
        await self._tasks.close()
        await self._runner.cleanup()
        await self._views.close()


def _reader(edge: WatchedEdge) -> AsyncAdminReader:
    token = Path(edge.token_file).read_text(encoding="utf-8").strip() if edge.token_file else None
    tls = ssl.create_default_context(cafile=edge.ca_file) if edge.ca_file else None
    return AsyncAdminReader(edge.admin_url, token=token, tls=tls)


def _server_tls(config: ControlConfig) -> ssl.SSLContext | None:
    if config.tls is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(config.tls.cert, config.tls.key)
    return context
