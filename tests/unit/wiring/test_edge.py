"""Building the Edge: tokens, ports, the ready line."""

import asyncio
import json
import socket
import stat
from pathlib import Path

import pytest
import yaml

from iop.config.load import load_edge
from iop.link.messages import Cancel, End, GoingAway
from iop.transport.listening import PortBusy
from iop.wiring.edge import EdgeService, admin_token
from iop.wiring.passed import Passed, WrongSocket
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


GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def _ask(model: str) -> bytes:
    body = json.dumps({"model": model, "messages": []}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def test_a_stop_with_a_passed_socket_refuses_nobody(tmp_path: Path) -> None:
    """What runs ends; a request on an open connection is served, as the last one there; who comes new waits in the
    socket, and the next Edge serves him.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=64) as held:
        async with edge_under_test(tmp_path, passed=Passed({"openai": held.dup()}), drain_timeout="60s") as edge:
            address = edge.address("openai")
            assert address == held.getsockname()
            node = await edge.node()
            running = asyncio.ensure_future(edge.post())
            first = await edge.run(node)
            pool, agent = [await RawClient.connect(address) for _ in range(2)]
            for client in (pool, agent):
                await client.send(GET)
                await client.until(b"ok")
                client.seen.clear()
            draining = asyncio.ensure_future(edge.service.drain())
            assert await node.expect(GoingAway)
            new = await RawClient.connect(address)
            await new.send(GET)
            await pool.send(_ask("m"))
            await agent.send(_ask("agent"))
            for run in (first, await edge.run(node, 2), await edge.run(node, 3)):
                node.answer(run.run)
            await draining
            assert (await running).status == 200
            for client in (pool, agent):
                await client.ended()
                assert b"connection: close" in bytes(client.seen).lower()
                assert parse(bytes(client.seen)).status == 200
                client.close()
            assert not new.seen
            await edge.service.stop()
            await node.gone()
            async with edge_under_test(tmp_path, passed=Passed({"openai": held.dup()})):
                await new.until(b"ok")
                new.close()


async def test_at_the_deadline_a_passed_socket_changes_nothing(tmp_path: Path) -> None:
    """What then still runs is cut and told; an upload that is not whole is told, too."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        async with edge_under_test(tmp_path, passed=Passed({"openai": held.dup()}), drain_timeout="50ms") as edge:
            node = await edge.node()
            running = asyncio.ensure_future(edge.post())
            await edge.run(node)
            upload = await RawClient.connect(edge.address("openai"))
            await upload.send(_ask("m")[:-1])
            await until(lambda: len(edge.core.uploads) == 1)
            draining = asyncio.ensure_future(edge.service.drain())
            cut = await node.expect(Cancel)
            node.send(End(run=cut.run, outcome="cancelled"))
            await draining
            await upload.ended()
            assert ((await running).status, parse(bytes(upload.seen)).code) == (503, "shutting_down")
            upload.close()


async def test_an_agents_request_waits_for_the_node_of_a_predecessor(tmp_path: Path) -> None:
    """An Edge on a passed socket expects its nodes back; one that comes too late is offline, as ever."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        async with edge_under_test(tmp_path, passed=Passed({"openai": held.dup()})) as edge:
            waiting = asyncio.ensure_future(edge.post(body={"model": "agent", "messages": []}))
            await until(lambda: len(edge.core.uploads) == 1)
            node = await edge.node()
            node.answer((await edge.run(node)).run)
            assert (await waiting).status == 200
        grace = {"offline_grace": "50ms"}
        async with edge_under_test(tmp_path, passed=Passed({"openai": held.dup()}), queue=grace) as edge:
            late = await edge.post(body={"model": "agent", "messages": []})
            assert (await late.json())["error"]["code"] == "node_offline"


async def test_a_passed_socket_of_another_address_is_refused(tmp_path: Path) -> None:
    """The config decides where the Edge listens; what was opened before is closed again."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        listen = {**config()["listen"], "admin": "127.0.0.2:0"}
        service = EdgeService(_loaded(tmp_path, listen=listen), release_id="test", passed=Passed({"admin": held.dup()}))
        with pytest.raises(WrongSocket, match=r"listen\.admin: 127\.0\.0\.2:0"):
            await service.start()
        await service.stop()
        service._passed.sockets["admin"].close()
