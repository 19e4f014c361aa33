"""A cluster of real processes on loopback, driven only through the documented commands, files and HTTP surfaces."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx
import yaml

from tests.fakes.authority import Authority
from tests.fakes.hygiene import check_status, children, faults_in, handles, is_idle
from tests.fakes.lifeline import ends_with_us

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 60.0  # seconds: generous, since the machine may be loaded; nothing waits that long when all is well
NODES = {
    "mac-codex-node": ("mac-mlx-vllm", 3),
    "gx10-vllm-node": ("gx10-vllm", 4),
    "onexplayer-lemonade-node": ("onexplayer-lemonade", 3),
}


async def eventually(check: Callable[[], Awaitable[Any]], what: str, *, within: float = DEADLINE) -> Any:
    """Wait until `check` returns something true, and return it; the last error or value is told on failure."""
    last: object = None
    deadline = asyncio.get_running_loop().time() + within
    while asyncio.get_running_loop().time() < deadline:
        try:
            last = await check()
        except (httpx.HTTPError, OSError) as error:
            last = error
        else:
            if last:
                return last
        await asyncio.sleep(0.02)  # a poll of another process; the condition is what is awaited
    raise AssertionError(f"not within {within} s: {what}; last seen: {last!r}")


@dataclass
class Process:
    """One process of ours: its ready line read, its stderr in a file."""

    name: str
    child: asyncio.subprocess.Process
    ready: dict[str, str]
    log: Path

    @classmethod
    async def start(cls, folder: Path, name: str, command: Sequence[str]) -> "Process":
        """Start the command and wait for its ready line."""
        log = folder / f"{name}.log"
        with log.open("ab") as stderr:
            child = await asyncio.create_subprocess_exec(
                *ends_with_us(command), cwd=folder, env=cls.environment(),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=stderr,
            )  # fmt: skip
        assert child.stdout is not None
        line = (await asyncio.wait_for(child.stdout.readline(), DEADLINE)).decode()
        assert line.startswith("ready "), f"{name} said {line!r}; log: {log.read_text()}"
        return cls(name, child, dict(word.split("=", 1) for word in line.split()[1:]), log)

    @staticmethod
    def environment() -> dict[str, str]:
        """What our programs start with: this checkout's code, compiled once for all of them, and warnings shown."""
        known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**known, "PYTHONPATH": str(ROOT / "runtime"), "PYTHONWARNINGS": "default"}

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process is still there."""
        with contextlib.suppress(ProcessLookupError):
            self.child.send_signal(number)

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        await self.child.wait()

    async def stop(self) -> int:
        """SIGTERM; kill after the deadline. Returns the exit code."""
        self.signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.child.wait(), DEADLINE)
        except TimeoutError:
            await self.kill()
            return -9

    def faults(self) -> list[str]:
        """Lines of the log that no healthy process writes."""
        return [f"{self.name}: {line}" for line in faults_in(self.log.read_text(encoding="utf-8", errors="replace"))]


class Engines(Protocol):
    """The kind of engine behind the providers."""

    ready_word: str  # the word of the ready line that holds host:port
    on_disconnect: str

    def command(self, made: "Cluster", provider: str, address: str) -> Sequence[str]:
        """The program that serves the model `engine-<provider>` on `address` with the provider's slots."""

    async def check_calm(self, made: "Cluster", provider: str) -> None:
        """Assert what must hold of the engine when the pool is at 0/0."""


class Simulators:
    """`iop-simulator`, at the cluster's rate."""

    ready_word = "simulator"
    on_disconnect = "cancel"

    def command(self, made: "Cluster", provider: str, address: str) -> Sequence[str]:
        """Slots and speed are the cluster's."""
        return python_command(
            "simulator", "serve", "--listen", address, "--model", f"engine-{provider}",
            "--slots", str(made.capacities[provider]), "--tokens-per-second", str(made.rate),
        )  # fmt: skip

    async def check_calm(self, made: "Cluster", provider: str) -> None:
        """It was never offered more than its slots."""
        assert (await made.stats(provider))["peak_offered"] <= made.capacities[provider], provider


def python_command(module: str, *args: str) -> list[str]:
    """The command line of one of our programs."""
    return [sys.executable, "-m", f"iop.commands.{module}", *args]


@dataclass
class Cluster:
    """Edge, Control Plane, three nodes and their engines; each can be killed and started anew."""

    folder: Path
    capacities: dict[str, int] = field(default_factory=lambda: dict(NODES.values()))
    options: dict[str, Any] = field(default_factory=dict)
    rate: float = 50.0
    engines: Engines = field(default_factory=Simulators)
    tls: Authority | None = None
    processes: dict[str, Process] = field(default_factory=dict)
    #: one client for everything: a new one per request costs more than the request
    client: httpx.AsyncClient = field(
        default_factory=lambda: httpx.AsyncClient(
            trust_env=False,
            timeout=DEADLINE,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )
    )
    ended: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        """With `tls`, every port of Edge and Control Plane has a certificate of that authority."""
        if self.tls is not None:
            self.options |= {"tls": {port: self.tls.issue(port) for port in ("openai", "nodes", "admin")}}
            self.client = httpx.AsyncClient(
                trust_env=False,
                timeout=DEADLINE,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
                verify=self.tls.trust(),
            )

    def at(self, port: str, process: str = "edge") -> str:
        """Base URL of a port of the Edge or the Control Plane."""
        return f"http{'s' if self.tls else ''}://{self.processes[process].ready[port]}"

    async def start(self) -> None:
        """Start everything and wait until all three providers are ready."""
        await asyncio.gather(*(self.start_engine(p) for p in self.capacities))
        self.write_edge_config()
        await self.start_edge()
        await asyncio.gather(self.start_control(), *(self.start_node(n) for n in NODES))
        await self.all_ready()

    async def spawn(self, name: str, command: Sequence[str]) -> Process:
        """Start a process under `name`, remembering an earlier one of that name for its log."""
        if (old := self.processes.pop(name, None)) is not None:
            self.ended.append(old)
        process = self.processes[name] = await Process.start(self.folder, name, command)
        return process

    async def start_engine(self, provider: str) -> None:
        """Start the engine of a provider, on its old port if it had one."""
        name = f"engine-{provider}"
        address = self.engine(provider) if name in self.processes else "127.0.0.1:0"
        await self.spawn(name, self.engines.command(self, provider, address))

    def edge_config(self) -> dict[str, Any]:
        """The whole edge.yaml as data, of the shape of the dev environment."""
        listen = {"openai": "127.0.0.1:0", "nodes": "127.0.0.1:0", "admin": "127.0.0.1:0"}
        if (edge := self.processes.get("edge")) is not None:
            listen = {name: edge.ready[name] for name in listen}
        nodes = []
        for node_id, (provider, _) in NODES.items():
            engine = {
                "name": provider,
                "enabled": True,
                "provider": "other",
                "endpoint": f"http://{self.engine_address(provider)}/v1",
            }
            adapters: dict[str, Any] = {"openai_compat_instances": [engine]}
            if node_id == "mac-codex-node":
                agent = {"kind": "text", "command": [sys.executable, "-m", "iop.commands.simulator", "agent"]}
                adapters["cli"] = {"enabled": True, "targets": {"echo": agent}}
            entry = {
                "id": provider,
                "type": "other",
                "category": "local_inference",
                "adapter": provider,
                "capacity": self.capacities[provider],
                "on_disconnect": self.engines.on_disconnect,
            }
            nodes.append({"id": node_id, "adapters": adapters, "providers": [entry]})
        models = [
            {"id": "pool", "providers": {p: f"engine-{p}" for p in self.capacities}},
            {"id": "agent", "direct": {"node": "mac-codex-node", "adapter": "cli", "target": "echo"}},
        ]
        return {"edge": {"id": "edge-test"}, "listen": listen, "nodes": nodes, "models": models, **self.options}

    def write_edge_config(self) -> Path:
        """Write edge.yaml from `edge_config`."""
        path = self.folder / "edge.yaml"
        path.write_text(yaml.safe_dump(self.edge_config(), sort_keys=False), encoding="utf-8")
        return path

    async def start_edge(self) -> None:
        """Start the Edge, on its old ports if it had some."""
        await self.spawn("edge", python_command("edge", "--config", str(self.folder / "edge.yaml"), "serve"))

    async def start_node(self, node_id: str) -> None:
        """Start a node that dials the Edge."""
        path = self.folder / f"{node_id}.yaml"
        data = {
            "node": {"id": node_id},
            "edge": {"addr": self.link_address(node_id), **self._trust()},
            "state_dir": f"state-{node_id}",
        }
        path.write_text(yaml.safe_dump(data), encoding="utf-8")
        await self.spawn(node_id, python_command("node", "--config", str(path), "serve"))

    async def start_control(self) -> None:
        """Start the Control Plane over the Edge, on its old port if it had one."""
        path = self.folder / "control.yaml"
        edges = [{"id": "edge-test", "admin_url": self.at("admin"), **self._trust()}]
        tls = {"tls": self.tls.issue("control")} if self.tls is not None else {}
        old = self.processes.get("control")
        listen = old.ready["control"] if old is not None else "127.0.0.1:0"
        path.write_text(yaml.safe_dump({"listen": listen, "edges": edges, **tls}), encoding="utf-8")
        await self.spawn("control", python_command("control", "--config", str(path), "serve"))

    def _trust(self) -> dict[str, str]:
        return {"ca_file": str(self.tls.ca_file)} if self.tls is not None else {}

    def engine(self, provider: str) -> str:
        """host:port of a provider's engine."""
        return self.processes[f"engine-{provider}"].ready[self.engines.ready_word]

    def engine_address(self, provider: str) -> str:
        """host:port at which the node of that provider reaches its engine."""
        return self.engine(provider)

    def link_address(self, node_id: str) -> str:
        """host:port at which that node reaches the Edge."""
        return self.processes["edge"].ready["nodes"]

    @property
    def openai(self) -> str:
        """Base URL of the OpenAI API."""
        return f"{self.at('openai')}/v1"

    @property
    def total(self) -> int:
        """All slots."""
        return sum(self.capacities.values())

    async def get(self, url: str) -> Any:
        """GET a JSON document."""
        return (await self.client.get(url)).raise_for_status().json()

    async def status(self) -> dict[str, Any]:
        """The Edge's status; each one read must satisfy the conservation law."""
        body: dict[str, Any] = await self.get(f"{self.at('admin')}/status")
        check_status(body)
        return body

    async def events_after(self, seq: int, count_ended: int) -> list[dict[str, Any]]:
        """Events after `seq`, read until `count_ended` `ended` events have come."""
        events: list[dict[str, Any]] = []
        url = f"{self.at('admin')}/events"
        async with (
            asyncio.timeout(DEADLINE),
            self.client.stream("GET", url, headers={"Last-Event-ID": str(seq)}, timeout=None) as response,
        ):
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    events.append(json.loads(line[5:]))
                    if sum(e["type"] == "ended" for e in events) >= count_ended:
                        return events
        raise AssertionError(f"the event stream ended early: {events}")

    async def stats(self, provider: str) -> dict[str, int]:
        """The simulator's own counters."""
        body: dict[str, int] = await self.get(f"http://{self.engine(provider)}/stats")
        return body

    async def all_ready(self) -> None:
        """Wait until every provider is ready."""
        await self.status_where(
            lambda s: all(p["state"] == "ready" for p in s["provider_snapshots"]), "all providers ready"
        )

    async def status_where(
        self, check: Callable[[dict[str, Any]], object], what: str, *, within: float = DEADLINE
    ) -> dict[str, Any]:
        """Wait for a status that satisfies `check`."""

        async def look() -> dict[str, Any] | None:
            status = await self.status()
            return status if check(status) else None

        found: dict[str, Any] = await eventually(look, what, within=within)
        return found

    async def calm(self) -> dict[str, Any]:
        """Wait for 0/0, and check what must then hold: no anomalies, no engine over its slots or still running."""
        status = await self.status_where(is_idle, "0/0")
        for provider in self.capacities:
            await self.engines.check_calm(self, provider)
        return status

    async def nothing_leaked(self) -> None:
        """Wait until the Edge's connections are those of its nodes and the Control Plane, and no agent is left."""
        edge = self.processes.get("edge")

        async def sockets_of_edge() -> bool:
            # three listeners, a link per node, the Control Plane's look, two pairs of the loop's own
            return sum(name.startswith("socket:") for name in handles(edge.child.pid).values()) <= 3 + len(NODES) + 4

        async def agents() -> bool:
            return not any(children(self.processes[n].child.pid) for n in NODES if n in self.processes)

        if edge is not None and edge.child.returncode is None:
            await eventually(sockets_of_edge, "the Edge's connections are closed")
        await eventually(agents, "no agent is left")

    async def close(self) -> None:
        """Stop everything; each living process must exit 0 and no log may hold a fault."""
        await self.client.aclose()
        await self.nothing_leaked()
        order = sorted(self.processes.values(), key=lambda p: p.name.startswith("engine"))
        codes = {}
        for process in order:
            gone = process.child.returncode is not None
            code = process.child.returncode if gone else await process.stop()
            if not gone:
                codes[process.name] = code
        assert all(code == 0 for code in codes.values()), codes
        assert [f for p in (*self.ended, *order) for f in p.faults()] == []


@contextlib.asynccontextmanager
async def cluster(folder: Path, **options: Any) -> AsyncIterator[Cluster]:
    """A running cluster; on the way out everything is stopped, also when the test or the start failed."""
    made = Cluster(folder, **options)
    try:
        await made.start()
        yield made
    except BaseException:
        await made.client.aclose()
        await asyncio.gather(*(p.kill() for p in made.processes.values()))
        raise
    await made.close()
