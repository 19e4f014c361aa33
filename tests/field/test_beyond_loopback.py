"""An Edge that other machines can reach: who gets in over TLS, and with what. Needs an address beside loopback."""

import asyncio
import hashlib
import ipaddress
import socket
from pathlib import Path

import httpx
import pytest

from iop.config.load import load_edge
from iop.link.messages import Config, TurnedAway
from iop.wiring.edge import EdgeService
from tests.fakes.authority import Authority
from tests.fakes.link_peers import FakeNode, hello


def own_address() -> str | None:
    """An IPv4 address of this machine that is not loopback, if it has one (nothing is sent to find out)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        found = probe.getsockname()[0]
    return None if ipaddress.ip_address(found).is_loopback else found


ADDRESS = own_address()
CONFIG = """
edge: {{id: edge-test}}
listen: {{openai: {host}:0, nodes: {host}:0, admin: {host}:0}}
tls: {{openai: {pair}, nodes: {pair}, admin: {pair}}}
auth: {{admin_token_file: admin.token, api_keys: [{{name: me, sha256: {key}}}]}}
nodes: [{{id: n1, token_sha256: {token}}}, {{id: n2}}]
models: []
"""


@pytest.mark.skipif(ADDRESS is None, reason="this machine has no address but loopback")
async def test_from_another_address_every_port_wants_tls_and_a_token(tmp_path: Path) -> None:
    """The certificate is for the IP address; without admin token, API key or node token: 401 or bad_token."""
    assert ADDRESS is not None
    authority = Authority(tmp_path)
    pair = "{{cert: {cert}, key: {key}}}".format(**authority.issue("server", ADDRESS))
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("key", "token")}
    (tmp_path / "admin.token").write_text("admin")
    (tmp_path / "admin.token").chmod(0o600)
    (tmp_path / "edge.yaml").write_text(CONFIG.format(host=ADDRESS, pair=pair, **digests))
    loaded = load_edge(tmp_path / "edge.yaml")
    assert {finding.code for finding in loaded.findings} == {"node_without_token", "no_models", "no_providers"}
    edge = EdgeService(loaded, release_id="test")
    try:
        ready = dict(word.split("=") for word in (await edge.start()).split()[1:])
        async with httpx.AsyncClient(trust_env=False, verify=authority.trust(), timeout=30) as client:

            async def get(port: str, path: str, token: str | None) -> int:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                return (await client.get(f"https://{ready[port]}{path}", headers=headers)).status_code

            assert [await get("admin", "/status", token) for token in (None, "wrong", "admin")] == [401, 401, 200]
            assert [await get("admin", "/events", token) for token in (None, "key")] == [401, 401]
            assert [await get("openai", "/v1/models", token) for token in (None, "admin", "key")] == [401, 401, 200]
            with pytest.raises(httpx.TransportError):
                await client.get(f"http://{ready['admin']}/status")
        for said, kind in (
            (hello("n1", token="token"), Config),
            (hello("n1", "other", token="wrong"), TurnedAway),
            (hello("n2", token=None), TurnedAway),
        ):
            host, port = ready["nodes"].rsplit(":", 1)
            node = FakeNode(*await asyncio.open_connection(host, int(port), ssl=authority.trust()))
            node.send(said)
            await node.expect(kind)
            await node.close()
        assert {entry["code"] for entry in edge._core.status()["turned_away"]} == {"bad_token"}
    finally:
        await edge.stop()
