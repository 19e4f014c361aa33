"""supervisord's XML-RPC over its unix socket, with the standard library alone."""

from __future__ import annotations

import http.client
import socket
import xmlrpc.client
from pathlib import Path
from typing import Any

from iop_release.errors import ReleaseError

NOT_RUNNING = 70
BAD_NAME = 10
ALREADY_STARTED = 60


class Unreachable(ReleaseError):
    """supervisord does not answer on its socket."""


class SupervisorRpc:
    """Calls to one supervisord. Raises `Unreachable`, or `xmlrpc.client.Fault` when it refuses."""

    def __init__(self, path: Path, timeout: float = 90.0) -> None:
        self._path = path
        self._timeout = timeout

    def call(self, method: str, *arguments: Any) -> Any:  # noqa: ANN401 - XML-RPC values are what they are
        """Call `supervisor.<method>`."""
        try:
            transport = _Transport(str(self._path), self._timeout)
            with xmlrpc.client.ServerProxy("http://localhost", transport=transport) as proxy:
                return getattr(proxy, f"supervisor.{method}")(*arguments)
        except (OSError, http.client.HTTPException, xmlrpc.client.ProtocolError) as error:
            raise Unreachable(f"supervisord does not answer on {self._path}: {error}") from error


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self._path)
        except OSError:
            self.sock.close()
            raise


class _Transport(xmlrpc.client.Transport):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__()
        self._path = path
        self._timeout = timeout

    def make_connection(self, host: Any) -> http.client.HTTPConnection:  # noqa: ANN401 - the caller's signature
        connection = _Connection(self._path, self._timeout)
        self._connection = (host, connection)  # where the base class closes it
        return connection
