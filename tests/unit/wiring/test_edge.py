"""Building the Edge: tokens, ports, the ready line."""

import asyncio
import socket
import stat
from pathlib import Path

import pytest
import yaml

from iop.config.load import load_edge
from iop.link.messages import GoingAway
from iop.transport.listening import PortBusy
from iop.wiring.edge import EdgeService, admin_token
from tests.fakes.edge_under_test import config, edge_under_test
from tests.fakes.raw_client import RawClient, parse
from tests.fakes.until import until


def _loaded(folder: Path, **changes: object):
    path = folder / "edge.yaml"
    path.write_text(yaml.safe_dump(config(**changes)))
    return load_edge(path)


def test_an_admin_token_is_made_once_and_only_for_this_user(tmp_path: Path) -> None:
    """Without a configured file `admin.token` (0600) appears beside the config and stays the same."""
    made = _loaded(tmp_path).config
    assert made is not None
    token = admin_token(made, tmp_path)
    file = tmp_path / "admin.token"

    assert len(token) > 30
    assert admin_token(made, tmp_path) == token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir() if "admin" in p.name] == ["admin.token"]


def test_an_empty_token_file_is_refused(tmp_path: Path) -> None:
    """An empty token would be everybody's."""
    (tmp_path / "admin.token").write_text("\n")
    made = _loaded(tmp_path).config
    assert made is not None
    with pytest.raises(ValueError, match="empty"):
        admin_token(made, tmp_path)


async def test_the_ready_line_tells_the_real_ports(tmp_path: Path) -> None:
    """Port 0 is any free one; the line tells which."""
    async with edge_under_test(tmp_path) as edge:
        assert edge.ready["edge"] == "edge-test"
        assert edge.ready["release"] == "test"
        ports = {int(edge.ready[name].rsplit(":", 1)[1]) for name in ("openai", "nodes", "admin")}

        assert len(ports) == 3
        assert 0 not in ports


@pytest.mark.parametrize("which", ["openai", "nodes", "admin"])
async def test_a_busy_port_is_named_and_nothing_stays_open(tmp_path: Path, which: str) -> None:
    """Whichever of the three ports is taken: PortBusy with its address, and the others are free again."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        listen = {**config()["listen"], which: f"127.0.0.1:{port}"}
        service = EdgeService(_loaded(tmp_path, listen=listen), release_id="test")
        with pytest.raises(PortBusy, match=str(port)):
            await service.start()
        await service.stop()


def test_a_config_with_errors_builds_nothing(tmp_path: Path) -> None:
    """The caller must have checked."""
    loaded = _loaded(tmp_path, nodes=[{"id": "n1", "providers": [{"id": "p"}]}])
    with pytest.raises(ValueError, match="errors"):
        EdgeService(loaded, release_id="test")


async def test_a_stop_does_not_wait_for_idle_clients(tmp_path: Path) -> None:
    """An idle connection is closed, a reader of events gets the end of its stream, a half-read upload its 503."""
    async with edge_under_test(tmp_path, drain_timeout="60s") as edge:
        idle, reader, upload = [await RawClient.connect(edge.address(p)) for p in ("openai", "admin", "openai")]
        await idle.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await idle.until(b"ok")
        await reader.send(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.until(b"after=")
        await upload.send(b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        await until(lambda: len(edge.core.uploads) == 1)
        async with asyncio.timeout(30):
            await edge.service.drain()
        for client in (idle, reader, upload):
            await client.ended()
            client.close()

        assert reader.seen.endswith(b"0\r\n\r\n")
        assert parse(bytes(upload.seen)).code == "shutting_down"


async def test_while_it_finishes_it_is_not_ready(tmp_path: Path) -> None:
    """/readyz of both ports says 503 shutting_down, /healthz goes on; a second stop cuts the wait at once."""
    async with edge_under_test(tmp_path, drain_timeout="60s") as edge:
        node = await edge.node()
        waiting = asyncio.ensure_future(edge.post())
        await edge.run(node)
        draining = asyncio.ensure_future(edge.service.drain())
        await until(lambda: edge.core.shutting_down)
        assert await node.expect(GoingAway)
        for port in ("openai", "admin"):
            ready, healthy = [await edge.session.get(edge.url(path, port)) for path in ("/readyz", "/healthz")]
            assert ((await ready.json())["error"]["code"], ready.status) == ("shutting_down", 503)
            assert healthy.status == 200
        draining.cancel()
        await edge.service.stop()

        assert (await waiting).status == 503
        assert len(node.all(GoingAway)) == 1


async def test_waiters_are_served_while_it_finishes_and_its_nodes_stay(tmp_path: Path) -> None:
    """The nodes hear at the beginning that the Edge goes away; those in line are still granted, then the links end."""
    async with edge_under_test(tmp_path, drain_timeout="60s") as edge:
        node = await edge.node()
        asked = [asyncio.ensure_future(edge.post()) for _ in range(3)]
        await edge.run(node, 2)
        await until(lambda: edge.load() == (2, 1))
        draining = asyncio.ensure_future(edge.service.drain())
        await node.expect(GoingAway)
        for count in (1, 2, 3):
            node.answer((await edge.run(node, count)).run)
        assert [answer.status for answer in await asyncio.gather(*asked)] == [200] * 3
        await draining
        assert edge.status()["nodes"][0]["connected"] is True
        await edge.service.stop()
        await node.gone()
