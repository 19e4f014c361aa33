"""An aiohttp server whose every answer is JSON, also to bytes that are not HTTP at all.

aiohttp answers what its parser refuses (bad request line, two lengths, an over-long header) with a text/plain page and
a traceback in the log; here it is the error object of the interface, one log line, and a closed connection.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from iop.domain.errors import BadRequest, IopError
from iop.openai import errors
from iop.transport.http_border import request_id
from iop.transport.listening import listening
from iop.transport.tls import ServerTls
from iop.transport.tls_server import BACKLOG, TlsServer, serve_tls

_log = logging.getLogger(__name__)

#: one header field or request line, bytes: a 9 KiB token or thirty cookies must pass (aiohttp's own default is 8190)
MAX_FIELD = 64 * 1024
#: turns of the event loop between a client's FIN and the close: an answer that waits for nothing takes about five
EOF_TURNS = 24


class JsonRequestHandler(RequestHandler):
    """aiohttp's connection handler with JSON errors. The connection is closed after each of them."""

    __slots__ = ("_is_half_closed", "_waits_for_others")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._is_half_closed = self._waits_for_others = False
        super().connection_made(transport)

    def eof_received(self) -> bool:  # type: ignore[override]  # aiohttp narrows asyncio's "bool | None" to None
        """Treat a client that sends no more as gone, whether it closed or only shut its sending side down.

        An answer that needs nobody else (a list, a refusal) still goes out: it must not depend on which came first,
        its last byte or the client's FIN. Over TLS asyncio allows no such delay.
        """
        self._is_half_closed = True
        if self.transport is None or self.transport.get_extra_info("ssl_object") is not None:
            return False
        if self._waits_for_others:
            return False
        self._close_after(EOF_TURNS)
        return True

    def wait_for_others(self) -> None:
        """The answer under way needs somebody else: no client that sends no more gets it, however soon it comes."""
        self._waits_for_others = True
        if self._is_half_closed:
            if self.transport is not None:
                self.transport.close()
            raise ConnectionResetError("the client shut its sending side down")

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """aiohttp: the handler has answered."""
        self._waits_for_others = False
        return await super().finish_response(request, resp, start_time)

    def _close_after(self, turns: int) -> None:
        if self.transport is None:
            return
        if turns > 0:
            self._loop.call_soon(self._close_after, turns - 1)
        else:
            self.transport.close()

    def finish(self) -> None:
        """Close once the answer under way is out; an idle connection closes now."""
        self.close()
        if not self._request_in_progress:
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what never reached a handler (status 400), or a fault of a handler that nobody caught (500)."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun; it can only be cut")
        if isinstance(exc, ConnectionError) and (request.transport is None or request.transport.is_closing()):
            raise exc  # the client is gone; aiohttp drops the connection without a word
        if status < 500:
            reason = (message or "").strip().split("\n", 1)[0][:200]
            error: IopError = BadRequest(
                f"The bytes received are not a valid HTTP request: {reason}",
                code="invalid_host" if "'Host' header" in reason else None,
            )
            _log.info("refused malformed HTTP from %s: %s", request.remote, reason)
        else:
            error = IopError("An internal error occurred; the log has the details.")
            _log.error("unhandled error in a request", exc_info=exc)
        told = {**dict(errors.headers(error)), "x-request-id": request_id(request)}
        response = web.Response(status=status, body=errors.envelope(error), headers=told)
        response.force_close()
        return response


def client_must_stay(request: web.BaseRequest) -> None:
    """Say that the answer from here on waits for somebody else (an engine, an agent, a free slot).

    Its client is gone as soon as it shuts its sending side down. Raises ConnectionResetError if it has already.
    """
    if isinstance(request.protocol, JsonRequestHandler):
        request.protocol.wait_for_others()


class JsonServer(web.Server):
    """A low-level aiohttp server that makes `JsonRequestHandler`s, and tells when its last connection is closed."""

    def __init__(self, runner: web.AppRunner, **kwargs: object) -> None:
        app = runner.app
        super().__init__(app._handle, request_factory=app._make_request, **kwargs)  # type: ignore[arg-type]  # noqa: SLF001  (what AppRunner does)
        self._open: dict[RequestHandler, asyncio.Transport] = {}
        self._emptied = asyncio.Event()

    async def finish(self) -> None:
        """Close each connection once its answer is out; returns when the last byte of the last one is sent."""
        for handler in tuple(self._open):
            if isinstance(handler, JsonRequestHandler):
                handler.finish()
        while self._open:
            self._emptied.clear()
            await self._emptied.wait()

    def abort(self) -> None:
        """Drop what closing connections have not sent yet: their clients do not read."""
        for transport in tuple(self._open.values()):
            transport.abort()

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """aiohttp: a client connected."""
        super().connection_made(handler, transport)
        self._open[handler] = transport

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
        return JsonServer(self, **self._kwargs)


@dataclass(frozen=True, slots=True)
class Listener:
    """A served app: where it really listens (port 0 resolved), and its end."""

    host: str
    port: int
    runner: web.AppRunner
    tls_server: TlsServer | None = None

    async def finish(self, within: float) -> None:
        """Accept nothing more; answers under way go out whole, for at most `within` seconds. `close` ends the rest."""
        server = self.runner.server
        if self.tls_server is not None:
            self.tls_server.close()
        for site in tuple(self.runner.sites):
            await site.stop()
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


async def listen(
    app: web.Application, host: str, port: int, tls: ServerTls | None = None, *, stop_within: float = 0.2
) -> Listener:
    """Serve `app` on host:port (0 = any free port), over TLS if given. A handler is cancelled when its client leaves.

    `stop_within` (seconds) is what open answers get at the end.

    Bodies arrive as they were sent (no decoding): the handlers decode them under their own limit.
    Raises PortBusy when the port is taken, OSError when it cannot be bound.
    """
    runner = _Runner(
        app,
        handler_cancellation=True,
        auto_decompress=False,
        access_log=None,
        max_line_size=MAX_FIELD,
        max_field_size=MAX_FIELD,
        shutdown_timeout=stop_within,
    )
    await runner.setup()
    try:
        with listening(host, port):
            if tls is not None:
                assert runner.server is not None  # made by setup
                server = await serve_tls(runner.server, host, port, tls)
                return Listener(*server.address, runner=runner, tls_server=server)
            await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
    except BaseException:
        await asyncio.shield(runner.cleanup())
        raise
    real = runner.addresses[0]
    return Listener(host=str(real[0]), port=int(real[1]), runner=runner)
