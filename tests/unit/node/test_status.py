"""The node's loopback port."""

import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from iop.node.status import StatusServer, StopToken
from iop.transport.listening import PortBusy


class Port:
    """A running status server and a client for it."""

    def __init__(self, address: str, session: aiohttp.ClientSession, token: StopToken, stops: list[str]) -> None:
        self.address = address
        self.session = session
        self.token = token
        self.stops = stops

    async def ask(self, method: str, path: str, **headers: str) -> tuple[int, dict[str, object]]:
        async with self.session.request(method, f"http://{self.address}{path}", headers=headers) as answer:
            return answer.status, await answer.json()


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    """Serve on a free port."""
    stops: list[str] = []
    token = StopToken.make(tmp_path / "state", "n1")
    server = StatusServer(lambda: {"schema": 1}, lambda: stops.append("stop"))
    server.token = token
    address = await server.start("127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        yield Port(address, session, token, stops)
    await server.close()


async def test_status_and_health(port: Port) -> None:
    """Both GETs answer JSON without a token."""
    assert await port.ask("GET", "/status") == (200, {"schema": 1})
    assert await port.ask("GET", "/healthz") == (200, {"status": "ok"})


async def test_stop_wants_the_token_of_the_file(port: Port) -> None:
    """POST /stop works with the file's token only."""
    odd = "Bearer \udcff\udcfe"  # bytes that are no UTF-8, as aiohttp gives them
    for headers in (
        {},
        {"Authorization": "Bearer x"},
        {"Authorization": f"Basic {port.token.value}"},
        {"Authorization": odd},
    ):
        status, body = await port.ask("POST", "/stop", **headers)
        assert status == 401
        assert isinstance(body["error"], dict)
    assert port.stops == []
    value = port.token.path.read_text(encoding="ascii").strip()
    assert (await port.ask("POST", "/stop", Authorization=f"Bearer {value}"))[0] == 202
    assert port.stops == ["stop"]


@pytest.mark.parametrize(("host", "status"), [("evil.example", 400), ("localhost:9", 200), ("[::1]", 200)])
async def test_foreign_host_names_are_refused(port: Port, host: str, status: int) -> None:
    """A name that is not loopback's own gets 400, so that no web page can reach the port by it."""
    assert (await port.ask("GET", "/status", Host=host))[0] == status


async def test_other_paths_and_methods(port: Port) -> None:
    """An unknown path is 404, a wrong method 405, both as the JSON error object."""
    for method, path, status, code in (("GET", "/x", 404, "not_found"), ("GET", "/stop", 405, "method_not_allowed")):
        answered, body = await port.ask(method, path)
        assert answered == status
        assert isinstance(body["error"], dict)
        assert body["error"]["code"] == code


def test_the_token_file(tmp_path: Path) -> None:
    """The file is private, new with each process, one per node, and taken away by its own process only."""
    first = StopToken.make(tmp_path / "state", "n1")
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o600
    assert StopToken.make(tmp_path / "state", "n2").path != first.path
    second = StopToken.make(tmp_path / "state", "n1")
    assert second.value != first.value
    first.remove()
    assert second.path.exists()
    second.remove()
    assert not second.path.exists()


async def test_without_a_token_there_is_no_stop() -> None:
    """A node without a state folder says that it cannot be stopped this way."""
    server = StatusServer(dict, lambda: None)
    address = await server.start("127.0.0.1", 0)
    async with aiohttp.ClientSession() as session, session.post(f"http://{address}/stop") as answer:
        assert answer.status == 403
    await server.close()


async def test_addresses_it_does_not_take() -> None:
    """A busy port names its owner; an address beyond loopback is refused."""
    server = StatusServer(dict, lambda: None)
    with pytest.raises(ValueError, match="not a loopback address"):
        await server.start("0.0.0.0", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortBusy):
        await server.start("127.0.0.1", taken.getsockname()[1])
    await server.close()
