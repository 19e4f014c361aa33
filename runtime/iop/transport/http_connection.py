"""One HTTP connection whose every answer is JSON: clients that shut down their sending side, and the last answer."""

import asyncio
import logging
from collections.abc import Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from iop.domain.errors import BadRequest, IopError
from iop.openai import errors
from iop.transport.http_border import request_id
from iop.transport.unread import is_readable

_log = logging.getLogger(__name__)

#: turns of the event loop between a client's FIN and the close: an answer that waits for nothing takes about five
EOF_TURNS = 24
#: seconds from a connection, or from the first byte of a further request on it, to the end of the request's head
HEAD_WITHIN = 60.0
#: for browsers: an answer (whatever an engine wrote into it) is no page, no script and no frame of any other page; and
#: nobody is told which library serves it
GUARDS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "iop",
}
#: seconds that a request may be on its way: the least that an idle connection which retires stays open
ON_ITS_WAY = 2.0


class JsonRequestHandler(RequestHandler):
    """aiohttp's connection handler with JSON errors. The connection is closed after each of them."""

    __slots__ = (
        "_head_deadline",
        "_head_since",
        "_idle_for",
        "_idle_since",
        "_is_half_closed",
        "_on_leaving",
        "_retirement",
        "_waits_for_others",
        "_when_writable",
    )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._is_half_closed = self._waits_for_others = False
        self._idle_for: float | None = None
        self._idle_since = self._loop.time()
        self._retirement: asyncio.TimerHandle | None = None
        self._head_since: float | None = self._idle_since
        self._when_writable: Callable[[], None] | None = None
        self._on_leaving: Callable[[], None] | None = None
        self._head_deadline: asyncio.Handle | None = self._loop.call_later(HEAD_WITHIN, self._look_at_head)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is closed."""
        if self._retirement is not None:
            self._retirement.cancel()
        if self._head_deadline is not None:
            self._head_deadline.cancel()
        self._left()
        super().connection_lost(exc)

    @property
    def retiring(self) -> bool:
        """True when the next answer is the connection's last."""
        return self._idle_for is not None

    def retire(self, idle_for: float) -> None:
        """Serve on, each answer with `Connection: close`; close once no request came for `idle_for` seconds.

        Those count from the last answer or byte of a request, or from the begin of the connection. A request that the
        client has sent already, or sends before it can know, is served like any other, also when this process had no
        time to read it until now.
        """
        self._idle_for = idle_for
        soonest = self._loop.time() + min(idle_for, ON_ITS_WAY)
        self._look_at(max(soonest, self._idle_since + idle_for))

    def data_received(self, data: bytes) -> None:
        """Bytes of a request came."""
        self._idle_since = self._loop.time()
        super().data_received(data)
        if self._waiter is None or self._waiter.done():
            self._head_since = None  # it is whole, or of a request that waits for the one under way
        elif self._head_since is None:
            self._head_since = self._idle_since
            if self._head_deadline is None:
                self._head_deadline = self._loop.call_later(HEAD_WITHIN, self._look_at_head)

    def _look_at_head(self) -> None:
        """Drop a client that says too slowly what it wants: a connection that costs it nothing is not kept for it."""
        self._head_deadline = None
        if self._head_since is None or self.transport is None:
            return
        left = self._head_since + HEAD_WITHIN - self._loop.time()
        if left <= 0 and is_readable(self.transport):  # this process is late, not the client
            left = min(HEAD_WITHIN, ON_ITS_WAY)
        if left > 0:
            self._head_deadline = self._loop.call_later(left, self._look_at_head)
        else:
            self.transport.abort()

    def _look_at(self, time: float) -> None:
        if self._retirement is not None:
            self._retirement.cancel()
        self._retirement = self._loop.call_at(time, self._retire_if_idle)

    def _retire_if_idle(self) -> None:
        if self._idle_for is None or self.transport is None:
            return
        idle_until, now = self._idle_since + self._idle_for, self._loop.time()
        # a process that had to wait for its turn finds this timer due, and bytes of a request that it has not read yet
        if self._waiter is None or self._waiter.done() or is_readable(self.transport):
            self._look_at(now + min(self._idle_for, ON_ITS_WAY))
        elif now < idle_until:
            self._look_at(idle_until)
        else:
            self.finish()

    def eof_received(self) -> bool:  # type: ignore[override]  # aiohttp narrows asyncio's "bool | None" to None
        """Treat a client that sends no more as gone, whether it closed or only shut its sending side down.

        An answer that needs nobody else (a list, a refusal) still goes out: it must not depend on which came first,
        its last byte or the client's FIN. Over TLS asyncio allows no such delay.
        """
        self._is_half_closed = True
        self._left()
        if self.transport is None or self.transport.get_extra_info("ssl_object") is not None:
            return False
        if self._waits_for_others:
            return False
        self._close_after(EOF_TURNS)
        return True

    def wait_for_others(self, on_leaving: Callable[[], None] | None) -> None:
        """The answer under way needs somebody else: no client that sends no more gets it, however soon it comes."""
        self._waits_for_others = True
        self._on_leaving = on_leaving
        if self._is_half_closed:
            if self.transport is not None:
                self.transport.close()
            raise ConnectionResetError("the client shut its sending side down")

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """aiohttp: the handler has answered, or aiohttp itself has before it was asked (`Expect` of something else)."""
        if isinstance(resp, web.HTTPException):
            resp = self.handle_error(request, 400, message=resp.text)
        self._waits_for_others, self._on_leaving = False, None
        self._idle_since = self._loop.time()
        return await super().finish_response(request, resp, start_time)

    def _left(self) -> None:
        """Tell that the client is gone, before the handler hears of it, which takes some turns of the loop."""
        callback, self._on_leaving = self._on_leaving, None
        if callback is not None:
            callback()

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, as soon as the client has read what makes writing pause (`writing_paused`)."""
        self._when_writable = callback

    def resume_writing(self) -> None:
        """asyncio: the client has caught up."""
        super().resume_writing()
        callback, self._when_writable = self._when_writable, None
        if callback is not None:
            callback()

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
            # what could not be read is not quoted: a key may stand in it
            facts = {
                "request_id": request_id(request),
                "peer": request.remote,
                "route": "none",
                "outcome": "refused",
                "reason": type(exc).__name__,
                "status": status,
                "error": error.code,
            }
            _log.info("malformed HTTP", extra={"fields": facts})
        else:
            error = IopError("An internal error occurred; the log has the details.")
            _log.error("unhandled error in a request", exc_info=exc)
        told = {**dict(errors.headers(error)), **GUARDS, "x-request-id": request_id(request)}
        response = web.Response(status=status, body=errors.envelope(error), headers=told)
        response.force_close()
        return response


def client_must_stay(request: web.BaseRequest, on_leaving: Callable[[], None] | None = None) -> None:
    """Say that the answer from here on waits for somebody else (an engine, an agent, a free slot).

    `on_leaving` is called once if its client leaves, in the turn in which that is seen.

    Its client is gone as soon as it shuts its sending side down. Raises ConnectionResetError if it has already.
    """
    if isinstance(request.protocol, JsonRequestHandler):
        request.protocol.wait_for_others(on_leaving)


def is_retiring(request: web.BaseRequest) -> bool:
    """Return whether the answer to this request is the last one of its connection."""
    return isinstance(request.protocol, JsonRequestHandler) and request.protocol.retiring


async def dress(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Put into an answer's head what each has: what a browser must not do with it, and that its connection ends with
    it, when that is so.
    """
    for name, value in GUARDS.items():
        if name == "Server":
            response.headers[name] = value
        else:
            response.headers.setdefault(name, value)
    if is_retiring(request):
        response.headers["Connection"] = "close"
        response.force_close()
