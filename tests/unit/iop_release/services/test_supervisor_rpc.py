"""iop_release.services.supervisor_rpc: XML-RPC over a unix socket."""

import socketserver
import tempfile
import threading
import xmlrpc.client
import xmlrpc.server
from collections.abc import Iterator
from pathlib import Path

import pytest

from iop_release.services.supervisor_rpc import SupervisorRpc, Unreachable


class _Handler(xmlrpc.server.SimpleXMLRPCRequestHandler):
    rpc_paths = ()
    disable_nagle_algorithm = False

    def address_string(self) -> str:
        return "unix"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Silent."""


class _Server(socketserver.UnixStreamServer, xmlrpc.server.SimpleXMLRPCDispatcher):
    def __init__(self, path: str) -> None:
        xmlrpc.server.SimpleXMLRPCDispatcher.__init__(self)
        socketserver.UnixStreamServer.__init__(self, path, _Handler)


@pytest.fixture
def path() -> Iterator[Path]:
    """The socket of a server that can add and refuse."""
    with tempfile.TemporaryDirectory(prefix="iop-") as folder:
        where = Path(folder) / "s.sock"
        with _Server(str(where)) as server:
            server.register_function(lambda one, two: one + two, "supervisor.add")
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            yield where
            server.shutdown()
            thread.join()


def test_calls_and_faults_travel(path: Path) -> None:
    """A call gets its value; what the server refuses is a Fault."""
    rpc = SupervisorRpc(path)

    assert rpc.call("add", 2, 3) == 5
    with pytest.raises(xmlrpc.client.Fault):
        rpc.call("nothing")


def test_nobody_there_is_unreachable(tmp_path: Path) -> None:
    """A socket that is missing, or nobody listens on, is one error with its path."""
    with pytest.raises(Unreachable, match=r"none\.sock"):
        SupervisorRpc(tmp_path / "none.sock").call("getState")
