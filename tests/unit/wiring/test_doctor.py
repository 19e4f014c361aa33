"""What the doctor sees of a host."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from iop.adapters.cli.readiness import user
from iop.config.load import load_node
from iop.config.models import NodeConfig
from iop.link.messages import CliTarget, EngineInstance, NodeRuntimeConfig
from iop.node.memory import Memory, Remembered
from iop.transport.listening import join_address
from iop.transport.tls_server import serve_tls
from iop.wiring.doctor import Check, environment, examine
from tests.fakes.agents import python
from tests.fakes.authority import Authority
from tests.fakes.codex import FakeCodex
from tests.fakes.stack import Engine, answer_ok, stack


def config(folder: Path, text: str = "", edge: str = "127.0.0.1:1") -> NodeConfig:
    """Write a node.yaml and load it."""
    path = folder / "node.yaml"
    path.write_text(f"node: {{id: n1}}\nedge: {{addr: '{edge}'}}\n" + text, encoding="utf-8")
    loaded = load_node(path)
    assert loaded.config is not None, loaded.findings
    return loaded.config


def keep(folder: Path, status: str = "127.0.0.1:1", user_name: str | None = None, **runtime: Any) -> None:
    """Leave what a node process would."""
    what = Remembered(
        status=status,
        runtime=NodeRuntimeConfig(node_id="n1", **runtime),
        user=user_name or user(),
        environment=environment(),
    )
    Memory(folder / "state", "n1").keep(what)


async def checks(folder: Path, wanted: NodeConfig | None = None) -> dict[str, Check]:
    """Examine; return the checks by name."""
    found = await examine(wanted or config(folder), folder)
    return {check.name: check for check in found}


@asynccontextmanager
async def answering(**told: Any) -> AsyncIterator[str]:
    """A node's status port."""

    async def status(_request: web.Request) -> web.Response:
        return web.json_response(told)

    app = web.Application()
    app.router.add_get("/status", status)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


async def test_a_host_whose_node_was_never_connected(tmp_path: Path) -> None:
    """Programs that node.yaml names are looked at; what only the Edge knows is said to be unseen."""
    commands = json.dumps({"there": list(python("pass")), "away": ["/no/such/agent"]})
    found = await checks(tmp_path, config(tmp_path, f"cli_commands: {commands}\n"))
    assert found["account"].detail.startswith(f"this command runs as {user()}, HOME=")
    assert {name: check.outcome for name, check in found.items()} == {
        "account": "ok",
        "token": "ok",
        "state": "ok",
        "edge": "failed",
        "running node": "unknown",
        "agents": "unknown",
        "agent there": "ok",
        "agent away": "failed",
    }
    assert found["agent away"].detail == "text: /no/such/agent does not exist"
    assert found["agent away"].next == "install it or name it in cli_commands of node.yaml"


async def test_agents_of_the_last_config(tmp_path: Path) -> None:
    """Codex is asked for version and login, with the service's own PATH and HOME."""
    codex = FakeCodex(tmp_path, app_server="app_server_ok", needs_login=True)
    keep(tmp_path, cli_targets=(codex.target(),))
    check = (await checks(tmp_path))["agent t"]
    assert check.outcome == "failed"
    assert check.next == f"run `codex login` as the user {user()} who runs this node"
    codex.login_file.touch()
    check = (await checks(tmp_path))["agent t"]
    assert check.outcome == "ok"
    assert check.detail.endswith("codex-cli 0.171.0, app-server, logged in (chatgpt account)")


async def test_the_services_environment_counts(tmp_path: Path) -> None:
    """A program that only the service finds is found, and the difference is told."""
    (tmp_path / "only-here").write_text("#!/bin/sh\n")
    (tmp_path / "only-here").chmod(0o755)
    runtime = NodeRuntimeConfig(node_id="n1", cli_targets=(CliTarget(name="t", kind="text", command=("only-here",)),))
    env = {**environment(), "PATH": str(tmp_path)}
    Memory(tmp_path / "state", "n1").keep(
        Remembered(status="127.0.0.1:1", runtime=runtime, user=user(), environment=env)
    )
    found = await checks(tmp_path)
    assert found["agent t"] == Check("agent t", "ok", f"text: {tmp_path}/only-here")
    assert found["service"].outcome == "unknown"
    assert f"the node runs with PATH={tmp_path}, this command with {os.environ['PATH']}" in found["service"].detail


async def test_another_user(tmp_path: Path) -> None:
    """A login belongs to a user: that the node runs as another one is told."""
    keep(tmp_path, user_name="somebody")
    assert f"the node runs with user=somebody, this command with {user()}" in (await checks(tmp_path))["service"].detail


async def test_the_running_node(tmp_path: Path) -> None:
    """A node that runs is asked for its link; another one at its address is not it."""
    link = {"connected": True, "edge": "e:1", "state": "connected", "last_loss": None}
    async with answering(node={"id": "n1"}, link=link) as address:
        keep(tmp_path, status=address)
        assert (await checks(tmp_path))["running node"].outcome == "ok"
    refused = {"connected": False, "state": "turned_away:bad_token", "last_loss": "turned away"}
    async with answering(node={"id": "n1"}, link=refused) as address:
        keep(tmp_path, status=address)
        check = (await checks(tmp_path))["running node"]
        assert (check.outcome, check.detail) == ("failed", "n1 is not connected: turned_away:bad_token (turned away)")
    async with answering(node={"id": "n2"}, link=link) as address:
        keep(tmp_path, status=address)
        assert (await checks(tmp_path))["running node"].outcome == "unknown"


async def test_token_and_state(tmp_path: Path) -> None:
    """A token that others can read and a state folder that is none are failures with a next step."""
    token = tmp_path / "token"
    token.write_text("secret-value")
    token.chmod(0o600)
    wanted = config(tmp_path, "state_dir: taken\n").model_copy(
        update={"node": config(tmp_path).node.model_copy(update={"token_file": str(token)})}
    )
    (tmp_path / "taken").touch()
    wanted = wanted.model_copy(update={"state_dir": str(tmp_path / "taken")})
    found = await checks(tmp_path, wanted)
    assert (found["token"].outcome, found["state"].outcome) == ("ok", "failed")
    token.chmod(0o640)
    found = await checks(tmp_path, wanted)
    assert (found["token"].outcome, found["token"].next) == ("failed", f"chmod 600 {token}")
    assert "secret-value" not in str(found)
    token.write_text(" ")
    assert (await checks(tmp_path, wanted))["token"].detail == f"{token} is empty"
    token.unlink()
    assert (await checks(tmp_path, wanted))["token"].outcome == "failed"


async def test_engines(tmp_path: Path) -> None:
    """Each engine of the last config is probed."""
    engine = EngineInstance(name="e1", provider="other", endpoint="http://127.0.0.1:1/v1", capacity=1)
    keyless = EngineInstance(
        name="e2", provider="other", endpoint="http://127.0.0.1:1/v1", capacity=1, api_key_file="none"
    )
    keep(tmp_path, engines=(engine, keyless))
    found = await checks(tmp_path)
    assert found["engine e1"].outcome == "failed"
    assert found["engine e2"].next == "check api_key_file"


async def test_beside_a_node_that_runs(tmp_path: Path) -> None:
    """On a host in its best health all is ok, the node keeps its link, and nobody is turned away."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": python("pass")}) as s:
        loaded = load_node(tmp_path / "n1.yaml")
        assert loaded.config is not None
        found = {check.name: check for check in await examine(loaded.config, tmp_path)}
        assert {check.outcome for check in found.values()} == {"ok"}
        assert set(found) == {"account", "token", "state", "edge", "running node", "agent agent", "engine e1"}
        assert s.status()["turned_away"] == []
        await asyncio.sleep(0)
        assert s.status()["nodes"][0]["connected"]


async def test_an_edge_that_wants_tls_is_seen_without_a_ca_file(tmp_path: Path) -> None:
    """The port answers, but hangs up on what is not TLS: that is the failure, and edge.ca_file the next step."""
    server = await serve_tls(asyncio.Protocol, "127.0.0.1", 0, Authority(tmp_path).server())
    try:
        found = await checks(tmp_path, config(tmp_path, edge=join_address(*server.address)))
    finally:
        server.close()
        await server.wait_closed()
    assert found["edge"].outcome == "failed"
    assert "hangs up on what is not TLS" in found["edge"].detail
    assert found["edge"].next is not None
    assert found["edge"].next.startswith("set edge.ca_file")


async def test_why_an_edge_cannot_be_reached(tmp_path: Path) -> None:
    """In words, not as numbers of the system."""
    found = await checks(tmp_path)
    assert found["edge"].detail == "127.0.0.1:1: Connection refused"


async def test_a_node_that_was_never_taken_in_is_found_at_its_fixed_address(tmp_path: Path) -> None:
    """Turned away from the first day on, it has kept nothing: status_listen tells where it is."""
    link = {"connected": False, "state": "turned_away:bad_token", "last_loss": "turned away"}
    async with answering(node={"id": "n1"}, link=link) as address:
        found = await checks(tmp_path, config(tmp_path, f"status_listen: '{address}'\n"))
    assert found["running node"].outcome == "failed"
    assert "turned_away:bad_token" in found["running node"].detail


async def test_an_edge_without_tls_is_seen_with_a_ca_file(tmp_path: Path) -> None:
    """It hangs up on the handshake, which is told in words."""
    authority = Authority(tmp_path)
    (host := tmp_path / "host").mkdir()
    async with stack(tmp_path, Engine(answer_ok)) as s:
        wanted = config(host, edge=s.ready["nodes"])
        edge = wanted.edge.model_copy(update={"ca_file": str(authority.ca_file)})
        found = await checks(host, wanted.model_copy(update={"edge": edge}))
    assert found["edge"].outcome == "failed"
    assert found["edge"].detail.endswith(": it closed the connection in the TLS handshake: does it speak TLS there?")


async def test_a_plain_edge_is_not_disturbed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The beginning of a frame leaves no warning and no refused node behind."""
    (host := tmp_path / "host").mkdir()
    async with stack(tmp_path, Engine(answer_ok)) as s:
        caplog.clear()
        found = await checks(host, config(host, edge=s.ready["nodes"]))
        assert found["edge"].outcome == "ok"
        assert s.status()["turned_away"] == []
        assert [record.getMessage() for record in caplog.records] == []
