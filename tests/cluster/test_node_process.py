"""A real `iop-node` process, linked to the Edge's own end of the link in this test, with a raw engine behind it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

import iop
from iop.edge.links import LinkRun, Links, RunSpec
from iop.link.messages import (
    CliTarget,
    End,
    EngineInstance,
    Head,
    Hello,
    NodeRuntimeConfig,
    ProviderHealth,
    ProviderRuntime,
    Ready,
)
from tests.fakes.fake_up import Exchange, FakeUp, response
from tests.fakes.until import until

SOURCES = Path(iop.__file__).parents[1]


@dataclass
class FakeEdge:
    """Directory and events of a one-node Edge around the real link code."""

    runtime: NodeRuntimeConfig
    generation: int = 1
    hellos: list[Hello] = field(default_factory=list)
    ready: list[Ready] = field(default_factory=list)
    health: list[ProviderHealth] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    adopted_ends: list[End] = field(default_factory=list)

    def check(self, node_id: str, token: str | None, peer_is_loopback: bool) -> str | None:
        return None if node_id == "n1" and token is None and peer_is_loopback else "bad_token"

    def config(self, node_id: str) -> tuple[int, NodeRuntimeConfig]:
        return self.generation, self.runtime

    def node_connected(self, node_id: str, epoch: int, hello: Hello) -> None:
        self.hellos.append(hello)

    def node_ready(self, node_id: str, ready: Ready) -> None:
        self.ready.append(ready)

    def node_lost(self, node_id: str, epoch: int, reason: str) -> None:
        self.lost.append(reason)

    def provider_health(self, node_id: str, health: ProviderHealth) -> None:
        self.health.append(health)

    def run_ended_adopted(self, node_id: str, run: int, end: End) -> None:
        self.adopted_ends.append(end)


@dataclass
class Cluster:
    """The pieces a test works with. `gate` holds engine answers back while it is not set."""

    edge: FakeEdge
    links: Links
    engine: FakeUp
    gate: asyncio.Event
    process: asyncio.subprocess.Process
    status: str
    folder: Path
    ends: list[End] = field(default_factory=list)

    def run(self, request_id: str, **fields: object) -> LinkRun:
        """Start work on the node; its end is noted."""
        spec = {
            "request_id": request_id,
            "adapter": "e1",
            "operation": "chat.completions",
            "stream": False,
            "body": b'{"model":"m","messages":[{"role":"user","content":"hi"}]}',
            "provider_id": "p1",
            "model_group_key": "m",
        } | fields
        return self.links.start("n1", RunSpec(**spec), self.ends.append)

    def posted(self) -> list[Exchange]:
        """Return the requests the engine got, probes aside."""
        return [exchange for exchange in self.engine.requests if exchange.method == "POST"]

    async def picture(self) -> dict[str, object]:
        """GET /status of the node."""
        async with aiohttp.ClientSession() as session, session.get(f"http://{self.status}/status") as answer:
            return await answer.json()


def node_runtime(engine: str, agent: Path) -> NodeRuntimeConfig:
    """Make a config with one CLI agent, one engine with two slots, and runtime concurrency 1."""
    return NodeRuntimeConfig(
        node_id="n1",
        concurrency=1,
        cli_enabled=True,
        cli_targets=(CliTarget(name="echo", kind="text", command=(sys.executable, str(agent))),),
        engines=(EngineInstance(name="e1", provider="other", endpoint=engine, capacity=2),),
        providers=(
            ProviderRuntime(
                id="p1",
                type="other",
                category="local_inference",
                adapter="e1",
                capacity=2,
                on_disconnect="cancel_streams",
            ),
        ),
        probe_every=0.2,
        drain_timeout=20.0,
    )


async def start_node(folder: Path, port: int) -> tuple[asyncio.subprocess.Process, str]:
    """Start `iop-node` and read its ready line."""
    (folder / "node.yaml").write_text(f"node: {{id: n1}}\nedge: {{addr: '127.0.0.1:{port}'}}\n", encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "iop.commands.node", "--config", str(folder / "node.yaml"), "serve"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCES), "IOP_RELEASE_ID": "v1"},
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode().strip()
    assert line.startswith("ready node=n1 status=127.0.0.1:"), line
    return process, line.rpartition("status=")[2]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Start engine, Edge end and node; end all of them."""
    async with bring_up(tmp_path) as pieces:
        yield pieces


@asynccontextmanager
async def bring_up(folder: Path) -> AsyncIterator[Cluster]:
    """Start engine, Edge end and node process, wait for `ready`; end all of them afterwards."""
    gate = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        if exchange.method == "POST":
            await gate.wait()
        await exchange.send(response(200, b'{"object":"chat.completion"}'))

    agent = folder / "agent.py"
    agent.write_text("import sys\nsys.stdout.write('agent: ' + sys.stdin.read())\n", encoding="utf-8")
    async with FakeUp(script) as engine:
        edge = FakeEdge(node_runtime(engine.url, agent))
        links = Links(directory=edge, events=edge, dead_after=15.0)
        _, port = await links.listen("127.0.0.1", 0)
        process, status = await start_node(folder, port)
        try:
            await until(lambda: edge.ready)
            yield Cluster(edge, links, engine, gate, process, status, folder)
        finally:
            gate.set()
            if process.returncode is None:
                process.kill()
            await process.wait()
            await links.close(going_away=False)


async def ended(cluster: Cluster, count: int) -> None:
    """Wait until so many runs have ended."""
    await until(lambda: len(cluster.ends) >= count)


async def stop_within(process: asyncio.subprocess.Process, act: Callable[[], None]) -> int:
    """Do `act` and wait for the exit code."""
    act()
    async with asyncio.timeout(30):
        return await process.wait()


async def test_pool_and_cli_work_over_a_real_link(cluster: Cluster) -> None:
    """S03, S04 by process: two pool runs fill the provider, a third is busy, the CLI runs beside them at once."""
    assert {(info.name, info.max_concurrency) for info in cluster.edge.ready[0].adapters} == {("cli", 0), ("e1", 2)}
    assert cluster.edge.hellos[0].release_id == "v1"
    runs = [cluster.run("a"), cluster.run("b")]
    await until(lambda: len(cluster.posted()) == 2)
    busy = await cluster.run("c").head()
    assert isinstance(busy, End)
    assert busy.failure == "busy"
    direct = cluster.run("d", adapter="cli", target="echo", provider_id=None, provider_pool=False)
    assert isinstance(await direct.head(), Head)
    assert b"agent: hi" in (await direct.read() or b"")
    picture = await cluster.picture()
    assert picture["providers"][0]["in_flight"] == 2  # type: ignore[index]
    cluster.gate.set()
    for run in runs:
        head = await run.head()
        assert isinstance(head, Head)
        assert head.status == 200
        assert await run.read() == b'{"object":"chat.completion"}'
    await ended(cluster, 4)
    assert sorted(end.outcome for end in cluster.ends) == ["completed"] * 3 + ["failed"]


async def test_work_survives_a_lost_link_and_is_reported(cluster: Cluster) -> None:
    """A non-stream under cancel_streams runs on when the link is cut; hello tells it, its end comes on the new link."""
    cluster.run("keeps")
    await until(cluster.posted)
    link = cluster.links.node("n1")
    assert link is not None
    link.conn.abort("cut by the test")
    await until(lambda: len(cluster.edge.hellos) == 2)  # `ready` may come again on the old link: an agent was looked at
    running = cluster.edge.hellos[1].running
    assert [(work.request_id, work.provider_id) for work in running] == [("keeps", "p1")]
    assert cluster.edge.hellos[1].instance_id == cluster.edge.hellos[0].instance_id
    cluster.gate.set()
    await until(lambda: cluster.edge.adopted_ends)
    assert [(end.run, end.outcome) for end in cluster.edge.adopted_ends] == [(running[0].run, "completed")]


async def test_sigterm_finishes_what_runs(cluster: Cluster) -> None:
    """SIGTERM: new runs are told so, the running one is finished, the node says bye and exits 0."""
    cluster.run("last")
    await until(cluster.posted)
    cluster.process.send_signal(signal.SIGTERM)
    await until(lambda: any(not health.up for health in cluster.edge.health))
    refused = await cluster.run("late").head()
    assert isinstance(refused, End)
    assert refused.failure == "stopping"
    assert await stop_within(cluster.process, cluster.gate.set) == 0
    await ended(cluster, 2)
    assert [end.outcome for end in cluster.ends] == ["failed", "completed"]


async def test_a_second_sigterm_stops_at_once(cluster: Cluster) -> None:
    """A second SIGTERM cuts the running work, closes its engine connection, and the exit code is 0."""
    cluster.run("cut")
    await until(cluster.posted)
    cluster.process.send_signal(signal.SIGTERM)
    await until(lambda: any(not health.up for health in cluster.edge.health))
    assert await stop_within(cluster.process, lambda: cluster.process.send_signal(signal.SIGTERM)) == 0
    await until(cluster.posted()[0].peer_left.is_set)
    await ended(cluster, 1)
    assert cluster.ends[0].failure in {"reset", "link_lost"}


async def test_stop_by_http(cluster: Cluster) -> None:
    """POST /stop with the stop token drains and exits 0, and the token file is gone afterwards."""
    path = cluster.folder / "state" / "n1.stop-token"
    headers = {"Authorization": f"Bearer {path.read_text(encoding='ascii').strip()}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{cluster.status}/stop", headers=headers) as answer,
    ):
        assert answer.status == 202
    assert await stop_within(cluster.process, lambda: None) == 0
    assert not path.exists()
