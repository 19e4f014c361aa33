"""A whole Edge in this process, on ports of its own, with a scripted node; and a client for it."""

import contextlib
import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from iop.config.load import load_edge
from iop.link.messages import ProviderHealth, Run
from iop.wiring.edge import EdgeService
from iop.wiring.passed import Passed
from tests.fakes.hygiene import check_status, clean_loop, is_idle
from tests.fakes.link_peers import FakeNode, hello
from tests.fakes.until import until

ENGINE = {"name": "e1", "enabled": True, "provider": "other", "endpoint": "http://127.0.0.1:9/v1"}
PROVIDER = {"id": "p1", "type": "other", "category": "local_inference", "adapter": "e1", "capacity": 2}
AGENT = {"kind": "text", "command": ["agent"]}
ADAPTERS = {"cli": {"enabled": True, "targets": {"echo": AGENT}}, "openai_compat_instances": [ENGINE]}


def config(**changes: Any) -> dict[str, Any]:
    """The smallest useful edge.yaml as data: node n1 with provider p1 (2 slots), models m (pool) and agent (direct)."""
    return {
        "edge": {"id": "edge-test"},
        "listen": {"openai": "127.0.0.1:0", "nodes": "127.0.0.1:0", "admin": "127.0.0.1:0"},
        "nodes": [{"id": "n1", "adapters": ADAPTERS, "providers": [PROVIDER]}],
        "models": [
            {"id": "m", "providers": {"p1": "engine-m"}},
            {"id": "agent", "direct": {"node": "n1", "adapter": "cli", "target": "echo"}},
        ],
        "drain_timeout": "200ms",
        **changes,
    }


@dataclass
class EdgeUnderTest:
    """The running Edge, its parts and its ports."""

    service: EdgeService
    folder: Path
    ready: dict[str, str]
    session: aiohttp.ClientSession

    @property
    def core(self) -> Any:
        """The Edge's core, to look into."""
        return self.service._core

    def url(self, path: str, port: str = "openai") -> str:
        """URL of a path on a port."""
        return f"http://{self.ready[port]}{path}"

    def address(self, port: str) -> tuple[str, int]:
        """host, port of a listener."""
        host, number = self.ready[port].rsplit(":", 1)
        return host, int(number)

    async def node(self, node_id: str = "n1", *, up: tuple[str, ...] = ("p1",), **fields: Any) -> FakeNode:
        """Join a node whose providers are up, and wait until the pool knows."""
        node = await FakeNode.join(self.address("nodes"), hello(node_id, **{"token": None} | fields))
        for provider in up:
            node.send(ProviderHealth(provider_id=provider, up=True))
        await until(lambda: self.core.node_state(node_id) == "connected")
        return node

    async def post(
        self, path: str = "/v1/chat/completions", body: Any = None, **options: Any
    ) -> aiohttp.ClientResponse:
        """POST JSON to the OpenAI port."""
        body = body if body is not None else {"model": "m", "messages": []}
        data = io.BytesIO(json.dumps(body).encode())
        return await self.session.post(self.url(path), data=data, **options)

    def status(self) -> dict[str, Any]:
        """The status JSON."""
        found: dict[str, Any] = self.core.status()
        return found

    def load(self) -> tuple[int, int]:
        """in_flight, queued."""
        totals = self.status()["totals"]
        return totals["in_flight"], totals["queued"]

    async def run(self, node: FakeNode, count: int = 1) -> Run:
        """The `count`-th run that the node was given, with its whole body there."""
        run: Run = await node.expect(Run, count)
        await until(lambda: run.run in node.whole)
        return run


@contextlib.asynccontextmanager
async def edge_under_test(
    folder: Path, *, passed: Passed | None = None, **changes: Any
) -> AsyncIterator[EdgeUnderTest]:
    """Start an Edge over `config(**changes)`, on `passed` sockets if given; stop it and check that nothing is left."""
    path = folder / "edge.yaml"
    path.write_text(yaml.safe_dump(config(**changes)), encoding="utf-8")
    loaded = load_edge(path)
    assert loaded.ok, loaded.findings
    async with clean_loop():
        service = EdgeService(loaded, release_id="test", passed=passed)
        line = await service.start()
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            made = EdgeUnderTest(service, folder, dict(word.split("=") for word in line.split()[1:]), session)
            try:
                yield made
            finally:
                await service.stop()
    check_status(made.status())
    assert is_idle(made.status())
