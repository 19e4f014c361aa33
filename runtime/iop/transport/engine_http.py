"""EngineHTTP: requests to one engine, by connections that are kept open between them.

A connection is used again only when nothing can be left over of what it carried before, and not when it was idle for
long: an idle connection that its engine closes just as a POST is written would lose that POST. One that is lost all
the same, before a byte of the answer came, is asked again once, by a new connection. Nothing else is repeated here,
and nothing is redirected, decoded or remembered; how many requests run at once is decided elsewhere.
"""

import asyncio
import logging
import ssl
from collections.abc import Sequence
from functools import cache
from ipaddress import ip_address
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM

from aiohappyeyeballs import AddrInfoType, start_connection
from yarl import URL

from iop.transport.engine_answer import EngineAnswer, EngineError
from iop.transport.engine_connection import EngineConnection
from iop.transport.engine_url import http_url

_log = logging.getLogger(__name__)

Headers = Sequence[tuple[str, str]]

#: seconds for DNS, TCP and TLS together; an engine that is there accepts within one
CONNECT_TIMEOUT = 10.0
#: seconds that a connection may be idle and still be used; servers close theirs after five (uvicorn) or more
KEPT_FOR = 2.0
#: seconds after a request in which the loss of a used connection means that its engine had closed it before; later it
#: means that the engine worked on the request and failed
CLOSED_WITHIN = 1.0
#: seconds between two looks for connections that were idle for too long
_SWEEP = 1.0
#: seconds after which a second address of the engine is tried beside the first (RFC 8305)
_NEXT_ADDRESS = 0.25


class EngineHttp:
    """Requests to one engine. Must be closed. At most `keep` connections are open without being used."""

    def __init__(self, endpoint: str, *, connect_timeout: float = CONNECT_TIMEOUT, keep: int = 1) -> None:
        self.endpoint = endpoint
        self._connect_timeout = connect_timeout
        self._keep = keep
        self._connections: set[EngineConnection] = set()
        self._idle: list[EngineConnection] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._targets: dict[tuple[str, str], tuple[URL, str]] = {}

    async def request(
        self,
        method: str,
        path: str,
        headers: Headers,
        body: bytes | None = None,
        *,
        within: float | None = None,
        once: bool = False,
    ) -> EngineAnswer:
        """Send one request and wait for the status line. The caller closes the answer.

        `once`: by a connection of its own, which serves nothing else. Raises EngineError, and TimeoutError when no
        status line came `within` seconds. Cancelling closes the connection at once.
        """
        url, first = self._target(method, path)
        head = _head(first, headers, body, once=once)
        loop = asyncio.get_running_loop()
        began = loop.time()
        kept = None if once else self._take()
        if kept is not None:
            try:
                return await _asked(kept, head, body, within)
            except EngineError as error:
                if error.failure != "reset" or loop.time() - began > CLOSED_WITHIN:
                    raise
        async with asyncio.timeout(None if within is None else began + within - loop.time()):
            return await _asked(await self._connect(url), head, body, None)

    async def close(self) -> None:
        """Close every connection. Safe to call twice."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._idle.clear()
        for connection in tuple(self._connections):
            connection.cut()
        if self._connections:
            await asyncio.wait([connection.closed for connection in self._connections])

    def _target(self, method: str, path: str) -> tuple[URL, str]:
        """Return where a request goes, and the first two lines of its head."""
        found = self._targets.get((method, path))
        if found is None:
            url = http_url(self.endpoint, path)
            if url is None:
                raise EngineError("unreachable", "the endpoint is not a valid http or https URL")
            lines = f"{method} {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n"
            found = self._targets[method, path] = (url, lines)
        return found

    async def _connect(self, url: URL) -> EngineConnection:
        host, port = url.raw_host or "", url.port or 0
        try:
            async with asyncio.timeout(self._connect_timeout):
                return await self._connected(host, port, _tls() if url.scheme == "https" else None)
        except TimeoutError:
            raise EngineError(
                "unreachable", f"{host}:{port}: no connection within {self._connect_timeout:g} s"
            ) from None
        except (OSError, ValueError) as error:  # a name that is none is a ValueError
            raise EngineError("unreachable", f"{host}:{port}: {_words(error)}") from error

    async def _connected(self, host: str, port: int, tls: ssl.SSLContext | None) -> EngineConnection:
        loop = asyncio.get_running_loop()
        sock = await start_connection(await _addresses(host, port), happy_eyeballs_delay=_NEXT_ADDRESS)
        try:
            _, connection = await loop.create_connection(
                lambda: EngineConnection(self._rest, self._gone, self._stray),
                sock=sock,
                ssl=tls,
                server_hostname=host.rstrip(".") if tls else None,
            )
        except BaseException:
            sock.close()
            raise
        self._connections.add(connection)
        return connection

    def _take(self) -> EngineConnection | None:
        """Return a connection that can be used again: the one that was used last."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.usable and asyncio.get_running_loop().time() - connection.idle_since < KEPT_FOR:
                return connection
            connection.abort()
        return None

    def _rest(self, connection: EngineConnection) -> None:
        """Keep a connection whose exchange has ended well."""
        if len(self._idle) >= self._keep or connection not in self._connections:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(_SWEEP, self._sweep)

    def _gone(self, connection: EngineConnection) -> None:
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _stray(self) -> None:
        """Keep no connections any more: an engine that sends more than it was asked for would mix up its answers."""
        if self._keep:
            self._keep = 0
            _log.warning(
                "an engine sent bytes behind an answer's end: it gets a connection for each request from now on",
                extra={"fields": {"reason": "engine_stray_bytes"}},
            )
        for connection in tuple(self._idle):
            connection.abort()
        self._idle.clear()

    def _sweep(self) -> None:
        """Close what was idle for too long: the oldest are first."""
        loop = asyncio.get_running_loop()
        until = loop.time() - KEPT_FOR
        old = [connection for connection in self._idle if connection.idle_since <= until]
        del self._idle[: len(old)]
        for connection in old:
            connection.abort()
        self._sweeper = loop.call_later(_SWEEP, self._sweep) if self._idle else None


async def _asked(connection: EngineConnection, head: bytes, body: bytes | None, within: float | None) -> EngineAnswer:
    answer = connection.ask(head, body or b"")
    try:
        await answer.begun(within)
    except BaseException:
        answer.close()
        raise
    return answer


def _head(first: str, headers: Headers, body: bytes | None, *, once: bool) -> bytes:
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
        raise EngineError("unreachable", "a header for the engine has a line break; is its key file one line?")
    length = "" if body is None else f"Content-Length: {len(body)}\r\n"
    close = "Connection: close\r\n" if once else ""
    return f"{first}{lines}{length}{close}\r\n".encode()


async def _addresses(host: str, port: int) -> list[AddrInfoType]:
    try:
        family = AF_INET6 if ip_address(host).version == 6 else AF_INET
    except ValueError:
        loop = asyncio.get_running_loop()
        return list(await loop.getaddrinfo(host, port, type=SOCK_STREAM, proto=IPPROTO_TCP))
    return [(family, SOCK_STREAM, IPPROTO_TCP, "", (host, port) if family == AF_INET else (host, port, 0, 0))]


@cache
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _words(error: BaseException) -> str:
    """Say why there is no connection, in one line."""
    text = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    return text or type(error).__name__
