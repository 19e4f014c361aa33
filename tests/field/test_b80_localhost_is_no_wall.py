"""Field case B80: a web page reaches loopback too, by a rebound name or a form; no port lets it in."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from iop.config.load import load_control, load_edge
from iop.wiring.control import ControlService
from tests.fakes.raw import raw
from tests.fakes.stack import Engine, Stack, answer_ok, chat, stack

REFUSED = (
    "Host: evil.example",
    "Host: evil.example:18083",
    "Host: localhost.evil.example",
    "Host: 127.0.0.1.evil.example",
    "Host: localhost@evil.example",
    "Host: 10.0.0.7",
    "Host: localhost\r\nOrigin: https://evil.example",
    "Host: localhost\r\nOrigin: null",
    "Host: localhost\r\nHost: evil.example",
)
ALLOWED = (
    "Host: localhost",
    "Host: LOCALHOST:1",
    "Host: 127.0.0.1",
    "Host: 127.8.9.10",
    "Host: [::1]:18083",
    "Host: [::ffff:127.0.0.1]",
    "Host: localhost\r\nOrigin: http://localhost:3000",
)


@dataclass
class Ports:
    """A stack with a Control Plane, and where each HTTP port listens."""

    stack: Stack
    at: dict[str, tuple[str, int]]

    async def ask(self, port: str, line: str, headers: str, body: bytes = b"") -> bytes:
        """Send one raw request; the status code."""
        head = f"{line} HTTP/1.1\r\n{headers}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        answer = await raw(*self.at[port], head.encode() + body)
        return answer.split(b" ", 2)[1]


@pytest.fixture
async def ports(tmp_path: Path) -> AsyncIterator[Ports]:
    """All HTTP ports there are."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        control = tmp_path / "control.yaml"
        edges = [{"id": "edge-test", "admin_url": f"http://{s.ready['admin']}"}]
        control.write_text(yaml.safe_dump({"listen": "127.0.0.1:0", "edges": edges}), encoding="utf-8")
        config = load_control(control).config
        assert config is not None
        service = ControlService(config)
        word = (await service.start()).rpartition("=")[2]
        node = s.nodes[0]._status._listener
        assert node is not None
        try:
            yield Ports(
                s,
                {
                    "openai": s.address(),
                    "admin": s.address("admin"),
                    "control": ("127.0.0.1", int(word.rpartition(":")[2])),
                    "node": (node.host, node.port),
                },
            )
        finally:
            await service.stop()


async def test_foreign_names_and_origins_are_refused_on_every_port(ports: Ports) -> None:
    """A rebound name, a page of another origin, two Host headers: 400 on all four ports; loopback literals pass."""
    for port in ports.at:
        codes = {headers: await ports.ask(port, "GET /healthz", headers) for headers in (*REFUSED, *ALLOWED)}
        assert codes == dict.fromkeys(REFUSED, b"400") | dict.fromkeys(ALLOWED, b"200"), port


async def test_a_form_of_a_page_changes_nothing(ports: Ports) -> None:
    """What a page can send without being asked (text/plain, no token) changes no state on any port."""
    before = ports.stack.status()
    for port, path in (("admin", "/config/refresh"), ("admin", "/nodes/n1/drain"), ("node", "/stop")):
        for method in ("POST", "PUT", "DELETE"):
            code = await ports.ask(port, f"{method} {path}", "Host: localhost\r\nContent-Type: text/plain", b"{}")
            assert code in (b"401", b"405", b"415"), (port, method, path)
    foreign = "Host: localhost\r\nOrigin: https://evil.example\r\nContent-Type: text/plain"
    assert await ports.ask("openai", "POST /v1/chat/completions", foreign, chat()) == b"400"
    after = ports.stack.status()

    assert (after["config"], after["nodes"]) == (before["config"], before["nodes"])
    assert after["totals"]["received"] == before["totals"]["received"]


async def test_a_get_never_changes_anything(ports: Ports) -> None:
    """GET of every path that changes state by another method: 404 or 405, and the status stays as it was."""
    before = ports.stack.status() | {"observed_at": ""}
    paths = ("/config/refresh", "/nodes/n1/drain", "/providers/p1/v1/chat/completions", "/v1/chat/completions", "/stop")
    for port in ports.at:
        for path in paths:
            assert await ports.ask(port, f"GET {path}", "Host: localhost") in (b"404", b"405"), (port, path)

    assert ports.stack.status() | {"observed_at": ""} == before


async def test_a_websocket_gets_no_answer_of_its_own(ports: Ports) -> None:
    """An upgrade is refused on the OpenAI port; the node link reads no HTTP at all."""
    upgrade = "Host: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket"
    head = f"GET /v1/responses HTTP/1.1\r\n{upgrade}\r\n\r\n".encode()
    assert (await raw(*ports.at["openai"], head)).split(b" ", 2)[1] == b"426"
    async with asyncio.timeout(20):
        assert b"HTTP" not in await raw(*ports.stack.address("nodes"), head)


@pytest.mark.parametrize("port", ["openai", "nodes", "admin"])
def test_an_open_bind_without_a_guard_does_not_start(tmp_path: Path, port: str) -> None:
    """0.0.0.0 without keys, TLS or token is an error of `config check`, so that `serve` refuses to start."""
    engine = {"name": "e", "enabled": True, "provider": "other", "endpoint": "http://127.0.0.1:9/v1"}
    provider = {"id": "p", "type": "other", "category": "local_inference", "adapter": "e", "capacity": 1}
    listen = {name: "0.0.0.0:0" if name == port else "127.0.0.1:0" for name in ("openai", "nodes", "admin")}
    config = {
        "edge": {"id": "edge-test"},
        "listen": listen,
        "nodes": [{"id": "n", "adapters": {"openai_compat_instances": [engine]}, "providers": [provider]}],
        "models": [{"id": "m", "providers": {"p": "m"}}],
    }
    path = tmp_path / "edge.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")

    loaded = load_edge(path)
    assert not loaded.ok
    assert any(f"listen.{port}" in str(finding) for finding in loaded.findings), loaded.findings
