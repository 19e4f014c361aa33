"""A Control Plane built from its config."""

import asyncio
import socket

import httpx
import pytest

from iop.config.load import load_control
from iop.transport.listening import PortBusy
from iop.wiring.control import ControlService


def service(tmp_path, listen="127.0.0.1:0", edge=""):
    """Build a Control Plane that watches one Edge where nobody listens."""
    path = tmp_path / "control.yaml"
    path.write_text(
        f'listen: {listen}\nedges: [{{id: edge-test, admin_url: "http://127.0.0.1:1"{edge}}}]\n', encoding="utf-8"
    )
    config = load_control(path).config
    assert config is not None
    return ControlService(config)


async def test_it_tells_its_port_and_serves_without_any_edge(tmp_path):
    """The ready line has the real port; a dead Edge is shown as not reachable."""
    control = service(tmp_path)
    try:
        ready = await control.start()
        assert ready.startswith("ready control=127.0.0.1:")
        base = f"http://{ready.partition('=')[2]}"
        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(20):
            edges = (await client.get(f"{base}/edges")).json()["edges"]
            assert edges == [{"id": "edge-test", "reachable": False, "age_s": None}]
            assert (await client.get(f"{base}/edges/edge-test/status")).status_code == 502
        await control.drain()
    finally:
        await control.stop()


async def test_a_busy_port_is_said_so(tmp_path):
    """A taken port is PortBusy, and the rest is freed all the same."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        control = service(tmp_path, listen=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(PortBusy):
            await control.start()
        await control.stop()


async def test_the_token_file_is_read(tmp_path):
    """An Edge's token comes from its file, and a file that is not there stops the start."""
    (tmp_path / "token").write_text("t0ken\n", encoding="utf-8")
    (tmp_path / "token").chmod(0o600)
    control = service(tmp_path, edge=", token_file: token")
    (view,) = control._views.all()
    assert view.reader._http.headers["authorization"] == "Bearer t0ken"
    await control.stop()
