"""A Control Plane built from its config."""

import asyncio
import socket
from hashlib import sha256

import httpx
import pytest

from iop.config.load import load_control
from iop.transport.listening import PortBusy
from iop.wiring.control import ControlService, token_check
from tests.fakes.authority import Authority


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


@pytest.mark.parametrize(
    ("auth", "token", "known"),
    [
        ("", "", False),
        ("", "anything", False),
        ("admin_token_file: token", "t0ken", True),
        ("admin_token_file: token", "t0ken ", False),
        ("admin_token_file: token", "", False),
        (f"api_keys: [{{name: a, sha256: {sha256(b'sk-a').hexdigest()}}}]", "sk-a", True),
        (f"api_keys: [{{name: a, sha256: {sha256(b'sk-a').hexdigest()}}}]", "t0ken", False),
    ],
)
def test_tokens_of_other_machines_are_known_by_file_or_key(tmp_path, auth, token, known):
    """The admin token and the API keys of control.yaml; nothing configured knows nobody."""
    (tmp_path / "token").write_text("t0ken\n", encoding="utf-8")
    (tmp_path / "token").chmod(0o600)
    path = tmp_path / "control.yaml"
    path.write_text(f"edges: []\nauth: {{{auth}}}\n", encoding="utf-8")
    config = load_control(path).config
    assert config is not None
    assert token_check(config.auth)(token) is known


async def test_it_serves_over_tls(tmp_path):
    """With a pair of its own the status API speaks TLS only."""
    authority = Authority(tmp_path)
    pair = authority.issue("server")
    path = tmp_path / "control.yaml"
    path.write_text(
        f"listen: 127.0.0.1:0\nedges: []\ntls: {{cert: {pair['cert']}, key: {pair['key']}}}\n", encoding="utf-8"
    )
    config = load_control(path).config
    assert config is not None
    control = ControlService(config)
    try:
        address = (await control.start()).partition("=")[2]
        async with httpx.AsyncClient(trust_env=False, verify=authority.trust()) as client, asyncio.timeout(20):
            assert (await client.get(f"https://{address}/edges")).json() == {"edges": []}
            with pytest.raises(httpx.TransportError):
                await client.get(f"http://{address}/edges")
    finally:
        await control.stop()
