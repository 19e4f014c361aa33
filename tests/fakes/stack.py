"""The whole runtime in one process: an Edge, real nodes, raw engines; and what must hold when a case is over.

async with stack(folder, Engine(script, capacity=2), agents={"agent": python(program)}) as s:
    client = await s.open({"model": "m", ...})
"""

import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from iop.config.load import load_edge, load_node
from iop.node.service import NodeService
from iop.wiring.edge import EdgeService
from iop.wiring.node import build_node
from tests.fakes.agents import living
from tests.fakes.authority import Authority
from tests.fakes.fake_up import Exchange, FakeUp, Script, healthy, response
from tests.fakes.hygiene import check_status, clean_loop, is_idle
from tests.fakes.raw_client import Answer, RawClient
from tests.fakes.until import until

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
#: an agent of kind text by its command, or any entry of `cli.targets`
Agent = Sequence[str] | Mapping[str, Any]


async def answer_ok(exchange: Exchange) -> None:
    """The script of an engine in its best health."""
    await exchange.send(response(200, b'{"object": "chat.completion", "choices": []}'))


@dataclass(frozen=True)
class Engine:
    """One provider `p1`, `p2`, … and its engine: a script for a FakeUp, or the URL of something that already runs."""

    script: Script | str
    capacity: int = 1
    on_disconnect: Literal["cancel", "cancel_streams", "finish"] = "cancel"
    node: str = "n1"


@dataclass
class Stack:
    """A running stack. `ups[0]` is the engine of provider `p1`, in the order of the engines given."""

    edge: EdgeService
    ready: dict[str, str]
    marker: str
    tls: Authority | None = None
    ups: list[FakeUp] = field(default_factory=list)
    nodes: list[NodeService] = field(default_factory=list)
    clients: list[RawClient] = field(default_factory=list)

    @property
    def up(self) -> FakeUp:
        """The first engine."""
        return self.ups[0]

    def address(self, port: str = "openai") -> tuple[str, int]:
        """host, port of a listener of the Edge."""
        host, number = self.ready[port].rsplit(":", 1)
        return host, int(number)

    @property
    def base_url(self) -> str:
        """Base URL for OpenAI clients."""
        return f"http{'s' if self.tls else ''}://{self.ready['openai']}/v1"

    async def open(self, body: Any = None, path: str = CHAT, *headers: str) -> RawClient:
        """Send a request (default: a plain chat request for `m`) and read nothing yet."""
        client = await self.connect()
        await client.post(path, chat() if body is None else encoded(body), *headers)
        return client

    async def connect(self, port: str = "openai", *, receive_buffer: int | None = None) -> RawClient:
        """Connect to a port of the Edge and send nothing yet; closed with the stack at the latest."""
        tls = self.tls.trust() if self.tls is not None else None
        self.clients.append(await RawClient.connect(self.address(port), receive_buffer=receive_buffer, tls=tls))
        return self.clients[-1]

    async def post(self, body: Any = None, path: str = CHAT, *headers: str) -> Answer:
        """Send a request and read its whole answer."""
        return await (await self.open(body, path, *headers)).answer()

    async def get(self, path: str, port: str = "openai", *, headers: Sequence[str] = ("Connection: close",)) -> Answer:
        """GET a path, in these very letters, on a port of the Edge."""
        client = await self.connect(port)
        await client.send("\r\n".join((f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", "")).encode())
        return await client.answer()

    def status(self) -> dict[str, Any]:
        """The status; each one read must satisfy the conservation law."""
        status: dict[str, Any] = self.edge._core.status()
        check_status(status)
        return status

    def totals(self, *names: str) -> tuple[int, ...]:
        """Some of the totals."""
        totals = self.status()["totals"]
        return tuple(totals[name] for name in names)

    def load(self) -> tuple[int, int]:
        """in_flight, queued."""
        in_flight, queued = self.totals("in_flight", "queued")
        return in_flight, queued

    def direct(self, node: str = "n1") -> dict[str, int]:
        """The direct counters of a node."""
        found: dict[str, int] = next(entry["direct"] for entry in self.status()["nodes"] if entry["id"] == node)
        return found

    async def until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait until a status satisfies the condition; return it."""
        found: dict[str, Any] = {}

        def check() -> object:
            nonlocal found
            found = self.status()
            return condition(found)

        await until(check)
        return found

    async def close_clients(self) -> None:
        """Close what clients left open."""
        for client in self.clients:
            client.writer.transport.abort()

    async def idle(self) -> None:
        """Wait until nothing is in flight or queued, pool and direct alike."""
        await self.until(is_idle)


def chat(text: str = "hi", *, model: str = "m", **more: Any) -> bytes:
    """A chat request."""
    return encoded({"model": model, "messages": [{"role": "user", "content": text}], **more})


def encoded(body: Any) -> bytes:
    """Bytes as they are, anything else as JSON."""
    return body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()


@contextlib.asynccontextmanager
async def stack(
    folder: Path,
    *engines: Engine,
    agents: Mapping[str, Agent] | None = None,
    checks_request: bool = True,
    tls: Authority | None = None,
    **options: Any,
) -> AsyncIterator[Stack]:
    """Run the stack; model `m` is served by every provider as `m`, each agent is a model of its name on node n1.

    `options` are further keys of edge.yaml. On the way out the invariants are asserted (see `_settled`).
    With `tls` all three ports speak TLS with its certificates.
    `checks_request=False` leaves out the last normal request, for engines that can serve none.
    """
    async with clean_loop():
        async with contextlib.AsyncExitStack() as parts:
            made = await _start(folder, parts, engines, dict(agents or {}), options, tls)
            parts.push_async_callback(made.close_clients)
            yield made
            await _settled(made, checks_request=checks_request)
        await until(lambda: not list(living(made.marker)))


async def _settled(made: Stack, *, checks_request: bool) -> None:
    """Nothing runs or waits, also as the admin port tells it, and one more normal request succeeds."""
    await made.idle()
    # an Edge that was drained has closed its ports
    told = made.status() if made.edge._core.shutting_down else (await made.get("/status", "admin")).json
    check_status(told)
    assert is_idle(told)
    if not checks_request:
        return
    for up in made.ups:
        up.script = answer_ok
    answer = await made.post()
    assert answer.status == 200, answer.body
    await made.idle()


async def _start(
    folder: Path,
    parts: contextlib.AsyncExitStack,
    engines: Sequence[Engine],
    agents: dict[str, Agent],
    options: dict[str, Any],
    tls: Authority | None,
) -> Stack:
    if tls is not None:
        options["tls"] = {port: tls.issue(port) for port in ("openai", "nodes", "admin")}
    ups, urls = [], []
    for engine in engines:
        if isinstance(engine.script, str):
            urls.append(engine.script)
        else:
            ups.append(await parts.enter_async_context(FakeUp(engine.script, probe=healthy)))
            urls.append(ups[-1].url)
    marker = f"iop-field-{uuid.uuid4().hex}"
    path = folder / "edge.yaml"
    path.write_text(yaml.safe_dump(_config(engines, urls, agents, marker) | options), encoding="utf-8")
    loaded = load_edge(path)
    assert loaded.ok, loaded.findings
    edge = EdgeService(loaded, release_id="test")
    parts.push_async_callback(edge.stop)
    made = Stack(edge, dict(word.split("=") for word in (await edge.start()).split()[1:]), marker, tls, ups)
    for node_id in sorted({engine.node for engine in engines} | {"n1"}):
        made.nodes.append(await _start_node(folder, parts, node_id, made))
    await made.until(
        lambda s: (
            all(node["connected"] for node in s["nodes"])
            and all(provider["state"] == "ready" for provider in s["provider_snapshots"])
        )
    )
    # before an engine's first probe its provider is ready too: a case that closes an engine must come after it
    await until(lambda: all(len(node._probes.verdicts) == len(node._runtime.providers) for node in made.nodes))
    return made


async def _start_node(folder: Path, parts: contextlib.AsyncExitStack, node_id: str, made: Stack) -> NodeService:
    path = folder / f"{node_id}.yaml"
    edge = {"addr": made.ready["nodes"]} | ({"ca_file": str(made.tls.ca_file)} if made.tls is not None else {})
    path.write_text(yaml.safe_dump({"node": {"id": node_id}, "edge": edge}), encoding="utf-8")
    loaded = load_node(path)
    assert loaded.config is not None, loaded.findings
    node = build_node(loaded.config, folder=folder, release_id="test")
    parts.push_async_callback(node.stop)
    await node.start()
    return node


def _config(engines: Sequence[Engine], urls: Sequence[str], agents: dict[str, Agent], marker: str) -> dict[str, Any]:
    """The edge.yaml of the stack as data."""
    targets = {name: _target(agent, marker) for name, agent in agents.items()}
    nodes: dict[str, dict[str, Any]] = {}
    for number, (engine, url) in enumerate(zip(engines, urls, strict=True), start=1):
        node = nodes.setdefault(engine.node, _node(engine.node))
        instance = {"name": f"e{number}", "enabled": True, "provider": "other", "endpoint": url}
        node["adapters"]["openai_compat_instances"].append(instance)
        node["providers"].append(
            {
                "id": f"p{number}",
                "type": "other",
                "category": "local_inference",
                "adapter": f"e{number}",
                "capacity": engine.capacity,
                "on_disconnect": engine.on_disconnect,
            }
        )
    nodes.setdefault("n1", _node("n1"))
    if targets:
        nodes["n1"]["adapters"]["cli"] = {"enabled": True, "targets": targets}
    models: list[dict[str, Any]] = [{"id": "m", "providers": {f"p{n}": "m" for n in range(1, len(engines) + 1)}}]
    models += [{"id": name, "direct": {"node": "n1", "adapter": "cli", "target": name}} for name in targets]
    return {
        "edge": {"id": "edge-test"},
        "listen": {"openai": "127.0.0.1:0", "nodes": "127.0.0.1:0", "admin": "127.0.0.1:0"},
        "nodes": list(nodes.values()),
        "models": models,
        "drain_timeout": "200ms",
    }


def _target(agent: Agent, marker: str) -> dict[str, Any]:
    entry = dict(agent) if isinstance(agent, Mapping) else {"kind": "text", "command": list(agent)}
    return {**entry, "env": {"IOP_FIELD": marker, **entry.get("env", {})}}


def _node(node_id: str) -> dict[str, Any]:
    return {"id": node_id, "adapters": {"openai_compat_instances": []}, "providers": []}
