"""A listening socket whose connections begin with a TLS handshake.

asyncio's own server loses a handshake that fails without a word, and does not know the peer by then. Here each
handshake is a task with a deadline, and a failed one is told in one line, once in a while for the same peer and cause.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable

from iop.transport.listening import join_address
from iop.transport.seldom import Seldom
from iop.transport.tasks import TaskSet
from iop.transport.tls import HANDSHAKE_WITHIN, SHUTDOWN_WITHIN, ServerTls, accept_trouble

_log = logging.getLogger(__name__)

#: connections that wait to be accepted; the system may allow fewer
BACKLOG = 4096
#: handshakes under way at once; more connections are closed at once
MAX_HANDSHAKES = 512
#: seconds to wait when the system has no more files for new connections
EXHAUSTED_PAUSE = 1.0
#: connections taken in one turn of the loop
TAKEN_AT_ONCE = 64

_EXHAUSTED = "no more connections can be accepted for now: %s"

Factory = Callable[[], asyncio.Protocol]


class TlsServer:
    """Accepts TLS connections and gives each a protocol of `factory` once its handshake is done.

    Like asyncio's Server it is closed by `close`, then `wait_closed`; connections that are made live on.
    """

    def __init__(self, sockets: list[socket.socket], factory: Factory, tls: ServerTls) -> None:
        self.sockets = tuple(sockets)
        self._address = (str(sockets[0].getsockname()[0]), int(sockets[0].getsockname()[1]))
        self._factory = factory
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._accepting = TaskSet()
        self._shaking = TaskSet()
        self._seldom = Seldom()
        self._stopped = False
        for sock in sockets:
            self._attend(sock)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens (port 0 resolved): host, port."""
        return self._address

    def stop_accepting(self) -> None:
        """Accept no more; handshakes go on. A connection is taken or left in the socket, never lost between."""
        self._stopped = True
        self._accepting.cancel()
        for sock in self.sockets:
            with contextlib.suppress(NotImplementedError):  # Windows, where the tasks must have ended before the close
                if sock.fileno() >= 0:
                    self._loop.remove_reader(sock)
                    sock.close()

    async def shaken(self) -> None:
        """Wait until no handshake is under way."""
        await self._shaking.drained()

    def close(self) -> None:
        """Accept no more, end handshakes. Safe to call twice."""
        self.stop_accepting()
        self._shaking.cancel()

    async def wait_closed(self) -> None:
        """Wait until the listening sockets are closed and no handshake is under way."""
        await self._accepting.close()
        await self._shaking.close()
        for sock in self.sockets:
            sock.close()

    def _attend(self, listener: socket.socket) -> None:
        """Take connections as they come: in one step each, so that a stop in between cannot lose one."""
        if self._stopped:
            return
        try:
            self._loop.add_reader(listener, self._take, listener)
        except NotImplementedError:  # Windows
            self._accepting.start(self._accept(listener), name="accepting TLS connections")

    def _take(self, listener: socket.socket) -> None:
        for _ in range(TAKEN_AT_ONCE):
            try:
                connection, peer = listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:  # it left again before it was taken
                continue
            except OSError as error:
                self._loop.remove_reader(listener)
                self._loop.call_later(EXHAUSTED_PAUSE, self._attend, listener)
                _log.error(_EXHAUSTED, error)
                return
            connection.settimeout(0)
            self._greet(connection, peer)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, peer = await self._loop.sock_accept(listener)
            except ConnectionError:
                continue
            except OSError as error:
                _log.error(_EXHAUSTED, error)
                await asyncio.sleep(EXHAUSTED_PAUSE)
            else:
                self._greet(connection, peer)

    def _greet(self, connection: socket.socket, peer: tuple[object, ...]) -> None:
        if len(self._shaking) >= MAX_HANDSHAKES:
            connection.close()
        else:
            self._shaking.start(self._shake(connection, str(peer[0])), name="TLS handshake")

    async def _shake(self, connection: socket.socket, peer: str) -> None:
        try:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                self._factory,
                connection,
                ssl=self._tls.context(),
                ssl_handshake_timeout=HANDSHAKE_WITHIN,
                ssl_shutdown_timeout=SHUTDOWN_WITHIN,
            )
        except ssl.SSLError as error:
            self._tell(peer, accept_trouble(error))
        except ConnectionAbortedError:
            self._tell(peer, f"no TLS handshake within {HANDSHAKE_WITHIN:g} s")
        except ConnectionError:
            self._tell(peer, "it left in the TLS handshake: a port check, or it does not trust this certificate")
        except OSError as error:
            self._tell(peer, str(error))

    def _tell(self, peer: str, trouble: str) -> None:
        if self._seldom.may_tell(peer, trouble):
            _log.warning("connection from %s to %s refused: %s", peer, join_address(*self.address), trouble)


async def serve_tls(
    factory: Factory, host: str, port: int, tls: ServerTls, sock: socket.socket | None = None
) -> TlsServer:
    """Listen on every address of `host` (port 0 = any free one), or on `sock` if given. Raises OSError."""
    if sock is not None:
        sock.listen(BACKLOG)
        sock.settimeout(0)
        return TlsServer([sock], factory, tls)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    with contextlib.ExitStack() as opened:
        for family, _, _, _, address in dict.fromkeys(found):
            where = (str(address[0]), int(address[1]))
            sock = opened.enter_context(socket.create_server(where, family=family, backlog=BACKLOG))
            sock.settimeout(0)
            sockets.append(sock)
        server = TlsServer(sockets, factory, tls)
        opened.pop_all()
    return server
