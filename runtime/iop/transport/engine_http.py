"""EngineHTTP: a thin shell over aiohttp's client for talking to one engine.

One connection per request: an idle connection that the engine closes just as a POST is written would lose that POST,
and nobody could tell whether a model had seen it. So nothing is pooled, nothing is retried, redirected, decoded or
remembered here, and no total time limit applies; how many requests run at once is decided elsewhere.
"""

import asyncio
import base64
import contextlib
import io
import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit, urlunsplit

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

Headers = Sequence[tuple[str, str]]

#: seconds for DNS, TCP and TLS together; an engine that is there accepts within one
CONNECT_TIMEOUT = 10.0
#: bytes held unread per answer before the engine is made to wait (aiohttp stops reading at twice this)
LEAVE_WITHIN = 0.5  # seconds that an engine has to notice that it was left; one that does not is cut off
READ_BUFFER = 64 * 1024
#: bytes of one header line; engines put whole warnings into headers
MAX_FIELD = 64 * 1024
#: below it are interim answers: aiohttp takes them off, but for 101, which would make the client's connection another
_FIRST_FINAL = 200
_FULL_ENDPOINTS = ("/chat/completions", "/responses", "/models")


class EngineError(Exception):
    """The exchange broke. `failure`: `unreachable` (no connection), `reset` (connection, but no status line) or
    `broken` (no HTTP, or an answer cut in the middle). The text holds no secret.
    """

    def __init__(self, failure: str, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail


def join(endpoint: str, path: str) -> str:
    """Return the URL of `path` (such as `models`) under an endpoint, whatever its spelling.

    A bare host gets `/v1`; trailing or doubled slashes and a full endpoint's last part are taken off; a query is
    kept; user and password are left out (see `basic_auth`).
    """
    parts = urlsplit(endpoint.strip())
    base = re.sub(r"/{2,}", "/", parts.path).rstrip("/")
    for tail in _FULL_ENDPOINTS:
        base = base.removesuffix(tail)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, f"{base or '/v1'}/{path}", parts.query, ""))


def basic_auth(endpoint: str) -> str | None:
    """Return the Authorization value for an endpoint with user and password in its URL, else None."""
    user, found, _ = urlsplit(endpoint.strip()).netloc.rpartition("@")
    return "Basic " + base64.b64encode(unquote(user).encode()).decode() if found else None


class EngineAnswer:
    """Status line and headers as they came, and the entity bytes (transfer coding removed, nothing decoded)."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers)
        self._end_with_connection()

    def _end_with_connection(self) -> None:
        """Let no reader outlive the connection: on framing that is no HTTP aiohttp closes it and tells nobody."""
        protocol = self._response.connection.protocol if self._response.connection is not None else None
        if isinstance(protocol, ResponseHandler) and protocol.closed is not None:
            protocol.closed.add_done_callback(self._lost)

    def _lost(self, closed: asyncio.Future[None]) -> None:
        content = self._response.content
        if not closed.cancelled():
            closed.exception()  # what a reader must know is told below
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("its framing is not HTTP"))

    def header(self, name: str) -> str:
        """Return the first value of a header, or an empty string."""
        return self._response.headers.get(name, "")

    @property
    def codings(self) -> str:
        """What the entity bytes are coded with, in the order in which it was applied; a transfer coding that is not
        taken off here (any but `chunked`) came last.
        """
        named = [(name.lower(), value) for name, value in self.headers]
        listed = [value for kind in ("content-encoding", "transfer-encoding") for name, value in named if name == kind]
        return ",".join(part for part in ",".join(listed).split(",") if part.strip().lower() != "chunked")

    @property
    def ends_with_connection(self) -> bool:
        """True when only the end of the connection ends the body, so that a cut cannot be seen in the framing."""
        return "chunked" not in self.header("Transfer-Encoding").lower() and not self.header("Content-Length")

    async def read(self) -> bytes:
        """Return what has come, waiting for at least one byte; empty at the end.

        Raises EngineError("broken") when the answer is cut.
        """
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise EngineError("broken", f"the answer was cut: {_brief(error)}") from error

    def close(self) -> None:
        """End the exchange: the connection is closed at once, whatever is still on its way. Never raises."""
        self._response.close()

    async def leave(self, within: float = LEAVE_WITHIN) -> None:
        """End the exchange; one that is not over is first given back to the engine.

        It is told that nobody sends any more, and has `within` seconds to end its side: only then is it known to have
        seen that it was left, and whoever comes next does not find it busy with this one.
        """
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        try:
            if transport is None or self._response.content.is_eof() or not transport.can_write_eof():
                return
            with contextlib.suppress(aiohttp.ClientError, OSError, RuntimeError, TimeoutError):
                transport.write_eof()
                async with asyncio.timeout(within):
                    while await self._response.content.readany():
                        pass
        finally:
            self.close()


class EngineHttp:
    """Requests to one engine. Must be closed."""

    def __init__(self, endpoint: str, *, connect_timeout: float = CONNECT_TIMEOUT) -> None:
        self.endpoint = endpoint
        self._connect_timeout = connect_timeout
        self._session: aiohttp.ClientSession | None = None

    async def request(self, method: str, path: str, headers: Headers, body: bytes | None = None) -> EngineAnswer:
        """Send one request and wait, without limit, for the status line. The caller closes the answer.

        Raises EngineError. Cancelling closes the connection at once.
        """
        try:
            response = await self._open_session().request(
                method,
                _url(self.endpoint, path),
                headers=headers,
                # a file-like body is written in pieces, with back-pressure
                data=None if body is None else io.BytesIO(body),
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise EngineError("unreachable", _brief(error)) from error
        except aiohttp.ClientResponseError as error:
            raise EngineError("broken", f"the answer is not HTTP: {_first_line(error.message)}") from error
        except aiohttp.ServerDisconnectedError as error:
            if not isinstance(error.message, str):  # the head, as far as it came
                raise EngineError("broken", "the answer was cut within its headers") from error
            raise EngineError("reset", "the connection was closed before a status line") from error
        except (aiohttp.ClientError, OSError) as error:
            raise EngineError("reset", f"connection lost before a status line: {_brief(error)}") from error
        if response.status < _FIRST_FINAL:
            response.close()
            raise EngineError("broken", f"status {response.status} is no final answer")
        return EngineAnswer(response)

    async def close(self) -> None:
        """Close every connection. Safe to call twice."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(limit=0, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._connect_timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                read_bufsize=READ_BUFFER,
                max_line_size=MAX_FIELD,
                max_field_size=MAX_FIELD,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        return self._session


class _Connector(aiohttp.TCPConnector):
    """Connections that are aborted when they are done with: a plain close would first wait until an engine that does
    not read has taken the rest of the request.
    """

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[aiohttp.tracing.Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the base class's signature
    ) -> aiohttp.connector.Connection:
        connection = await super().connect(req, traces, timeout)
        transport = connection.transport
        if transport is not None:
            connection.add_callback(transport.abort)
        return connection


def _url(endpoint: str, path: str) -> URL:
    try:
        url = URL(join(endpoint, path))
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise EngineError("unreachable", "the endpoint is not a valid http or https URL")
    return url


def _brief(error: BaseException) -> str:
    """Say what went wrong in one line, without the request's URL."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}:{error.port}: {error.os_error.strerror or type(error).__name__}"
    text = _first_line(str(error))
    return text if text and "://" not in text else type(error).__name__


def _first_line(text: str) -> str:
    """Return what aiohttp says without the bytes it shows below it and the exception it wraps."""
    return text.partition("\n")[0].partition(": <")[0].rstrip(": ")
