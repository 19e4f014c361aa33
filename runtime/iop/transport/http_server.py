"""An aiohttp server whose every answer is JSON, also to bytes that are not HTTP at all.

aiohttp answers what its parser refuses (bad request line, two lengths, an over-long header) with a text/plain page and
a traceback in the log; here it is the error object of the interface, one log line, and a closed connection.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from iop.transport.http_border import Handler
from iop.transport.http_connection import JsonRequestHandler, dress
from iop.transport.listening import listening
from iop.transport.tls import ServerTls
from iop.transport.tls_server import BACKLOG, TlsServer, serve_tls

#: one header field or request line, bytes: a 9 KiB token or thirty cookies must pass (aiohttp's own default is 8190)
MAX_FIELD = 64 * 1024
#: turns of the event loop until a connection that the loop has accepted reaches its handler: two, or three
ACCEPT_TURNS = 8


_Factory = Callable[
    [RawRequestMessage, StreamReader, RequestHandler, AbstractStreamWriter, "asyncio.Task[None]"], web.Request
]


class JsonServer(web.Server):
    """A low-level aiohttp server that makes `JsonRequestHandler`s, and tells when its last connection is closed.

    `handler` gets each request, made by `factory`; `kwargs` are aiohttp's.
    """

    def __init__(self, handler: Handler, factory: _Factory, **kwargs: object) -> None:
        super().__init__(handler, request_factory=factory, **kwargs)  # type: ignore[arg-type]
        self._open: dict[RequestHandler, asyncio.Transport] = {}
        self._emptied = asyncio.Event()
        self._idle_for: float | None = None

    async def finish(self) -> None:
        """Close each connection once its answer is out; returns when the last byte of the last one is sent."""
        for handler in self._handlers():
            handler.finish()
        await self.emptied()

    def retire(self, idle_for: float) -> None:
        """Let each connection, also one that is still being made, retire (see `JsonRequestHandler.retire`)."""
        self._idle_for = idle_for
        for handler in self._handlers():
            handler.retire(idle_for)

    async def emptied(self) -> None:
        """Wait until no connection is open."""
        for _ in range(ACCEPT_TURNS):
            await asyncio.sleep(0)
        while self._open:
            self._emptied.clear()
            await self._emptied.wait()

    def _handlers(self) -> list[JsonRequestHandler]:
        return [handler for handler in self._open if isinstance(handler, JsonRequestHandler)]

    def abort(self) -> None:
        """Drop what closing connections have not sent yet: their clients do not read."""
        for transport in tuple(self._open.values()):
            transport.abort()

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """aiohttp: a client connected."""
        super().connection_made(handler, transport)
        self._open[handler] = transport
        if self._idle_for is not None and isinstance(handler, JsonRequestHandler):
            handler.retire(self._idle_for)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """aiohttp: a connection is closed."""
        super().connection_lost(handler, exc)
        self._open.pop(handler, None)
        self._emptied.set()

    def __call__(self) -> RequestHandler:
        """Make the handler of one new connection."""
        return JsonRequestHandler(self, loop=self._loop, **self._kwargs)


class _Runner(web.AppRunner):
    async def _make_server(self) -> web.Server:
        await super()._make_server()
        app = self.app
        return JsonServer(app._handle, app._make_request, **self._kwargs)  # noqa: SLF001  (what AppRunner does)


def _plain_runner(handler: Handler, shutdown_timeout: float, **kwargs: object) -> web.ServerRunner:
    """Return a runner without an application: no router, no signals, one handler."""
    loop = asyncio.get_running_loop()

    def factory(
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.Request:
        return web.Request(message, payload, protocol, writer, task, loop)

    async def handle(request: web.Request) -> web.StreamResponse:
        response = await handler(request)
        if not response.prepared:
            await dress(request, response)
        return response

    return web.ServerRunner(JsonServer(handle, factory, **kwargs), shutdown_timeout=shutdown_timeout)


@dataclass(frozen=True, slots=True)
class Listener:
    """A served app: where it really listens (port 0 resolved), and its end."""

    host: str
    port: int
    runner: web.BaseRunner
    tls_server: TlsServer | None = None

    async def retire(self, idle_for: float, within: float) -> bool:
        """Accept nothing more, and serve who is connected until all have left: each answer says `Connection: close`,
        and a connection without a request for `idle_for` seconds is closed. True when all have left `within` seconds.

        For a socket that somebody else keeps open: new connections wait in it, so that nobody is turned away.
        """
        server = self.runner.server
        if not isinstance(server, JsonServer):
            return True
        server.retire(idle_for)
        await self._stop_accepting()
        try:
            async with asyncio.timeout(within):
                if self.tls_server is not None:
                    await self.tls_server.shaken()
                await server.emptied()
        except TimeoutError:
            return False
        return True

    async def _stop_accepting(self) -> None:
        if self.tls_server is not None:
            self.tls_server.stop_accepting()
        sites = tuple(self.runner.sites)
        for site in sites:
            _leave_in_socket(site)
        for _ in range(ACCEPT_TURNS):  # asyncio's server drops at its close whom it has accepted but not handed over
            await asyncio.sleep(0)
        for site in sites:
            await site.stop()

    async def finish(self, within: float) -> None:
        """Accept nothing more; answers under way go out whole, for at most `within` seconds. `close` ends the rest."""
        server = self.runner.server
        if self.tls_server is not None:
            self.tls_server.close()
        await self._stop_accepting()
        if not isinstance(server, JsonServer):  # closed already
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await server.finish()

    async def close(self) -> None:
        """Stop listening, end open connections at once, free everything. Safe to call twice."""
        if self.tls_server is not None:
            self.tls_server.close()
            await self.tls_server.wait_closed()
        server = self.runner.server
        await self.runner.cleanup()
        if isinstance(server, JsonServer):
            server.abort()


def _leave_in_socket(site: web.BaseSite) -> None:
    """Accept nothing more on this site; its socket stays open."""
    loop = asyncio.get_running_loop()
    server = site._server  # noqa: SLF001  (aiohttp tells nobody else)
    with contextlib.suppress(NotImplementedError):  # Windows
        for sock in getattr(server, "sockets", None) or ():
            loop.remove_reader(sock.fileno())


async def listen(
    app: web.Application | Handler,
    host: str,
    port: int,
    tls: ServerTls | None = None,
    *,
    stop_within: float = 0.2,
    sock: socket.socket | None = None,
) -> Listener:
    """Serve `app` on host:port (0 = any free port), over TLS if given. A handler is cancelled when its client leaves.

    `app` may be one plain handler, which costs less per request; its answers are made at once, or are `Answer`s.

    `stop_within` (seconds) is what open answers get at the end. `sock` listens already and is used instead.

    Bodies arrive as they were sent (no decoding): the handlers decode them under their own limit.
    Raises PortBusy when the port is taken, OSError when it cannot be bound.
    """
    options: dict[str, Any] = {
        "handler_cancellation": True,
        "auto_decompress": False,
        "access_log": None,
        "max_line_size": MAX_FIELD,
        "max_field_size": MAX_FIELD,
    }
    runner: web.BaseRunner
    if isinstance(app, web.Application):
        app.on_response_prepare.append(dress)
        runner = _Runner(app, shutdown_timeout=stop_within, **options)
    else:
        runner = _plain_runner(app, stop_within, **options)
    await runner.setup()
    try:
        with listening(host, port):
            if tls is not None:
                assert runner.server is not None  # made by setup
                server = await serve_tls(runner.server, host, port, tls, sock)
                return Listener(*server.address, runner=runner, tls_server=server)
            if sock is not None:
                await web.SockSite(runner, sock, backlog=BACKLOG).start()
            else:
                await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
    except BaseException:
        await asyncio.shield(runner.cleanup())
        raise
    real = runner.addresses[0]
    return Listener(host=str(real[0]), port=int(real[1]), runner=runner)
