"""Field case B79: no secret of anybody appears in an answer, a log, the status, the events or a finding."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from iop.config.load import load_edge
from iop.wiring.logs import JsonLines, TextLines
from tests.fakes.agents import python
from tests.fakes.fake_up import Exchange, FakeUp, healthy, response
from tests.fakes.link_peers import FakeNode, hello
from tests.fakes.stack import CHAT, Engine, Stack, chat, stack

API_KEY = "canary-api-key-1a"
WRONG_KEY = "canary-wrong-key-2b"
ADMIN = "canary-admin-3c"
WRONG_ADMIN = "canary-wrong-admin-4d"
NODE_TOKEN = "canary-node-token-5e"
ENGINE_KEY = "canary-engine-key-6f"
CLI_ENV = "canary-cli-env-7g"
USERINFO = "canary-user:canary-password-8h"
QUERY = "canary-query-9i"
CANARY = "canary-"


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Every log line of this process at level debug, as both formats write it."""
    lines: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.extend((TextLines().format(record), JsonLines().format(record)))

    root, keeper = logging.getLogger(), Keeper()
    before = root.level
    root.addHandler(keeper)
    root.setLevel(logging.DEBUG)
    yield lines
    root.setLevel(before)
    root.removeHandler(keeper)


async def _fails(exchange: Exchange) -> None:
    """An engine with a reason to be talked about: reset, cut, refused, then well."""
    match exchange.json.get("n"):
        case 1:
            exchange.reset()
        case 2:
            await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
            exchange.close()
        case 3:
            await exchange.send(response(401, b'{"error": {"message": "no"}}'))
        case _:
            await exchange.send(response(200, b'{"choices": []}'))


def _nodes(url: str) -> list[dict[str, Any]]:
    targets = {
        "agent": {
            "kind": "text",
            "command": list(python("import os, sys; sys.stdin.read(); sys.exit('broken')")),
            "env": {"SECRET": CLI_ENV},
        }
    }
    engine = {"name": "e1", "enabled": True, "provider": "other", "endpoint": url, "api_key_file": "engine.key"}
    provider = {"id": "p1", "type": "other", "category": "local_inference", "adapter": "e1", "capacity": 1}
    adapters = {"cli": {"enabled": True, "targets": targets}, "openai_compat_instances": [engine]}
    return [{"id": "n1", "adapters": adapters, "providers": [provider]}]


async def _wide(s: Stack, said: list[bytes]) -> None:
    """All that can go wrong with a secret at hand; every answer is kept."""
    right, wrong = f"Authorization: Bearer {API_KEY}", f"Authorization: Bearer {WRONG_KEY}"
    for number in range(4):
        said.append((await s.post(chat(n=number), CHAT, right)).body)
    said.append((await s.post(chat(model="agent"), CHAT, right)).body)
    said.append((await s.post(chat(model="none"), CHAT, right)).body)
    said.append((await s.post(chat(), CHAT, wrong)).body)
    said.append((await s.post(b"{", CHAT, right)).body)
    for token in (ADMIN, WRONG_ADMIN):
        for body in ({"mode": "dry-run", "config": "edge: {", "source": "/x"}, {"mode": 1}):
            client = await s.connect("admin")
            as_json = "Content-Type: application/json"
            await client.post("/config/refresh", json.dumps(body).encode(), f"Authorization: Bearer {token}", as_json)
            said.append((await client.answer()).body)
    stranger = await FakeNode.connect(s.address("nodes"))
    stranger.send(hello("n1", instance_id="other", token=NODE_TOKEN))
    await stranger.gone()
    said.append(repr(stranger.heard).encode())
    said.append((await s.get("/status", "admin")).body)
    client = await s.connect("admin")
    await client.send(b"GET /events?last_event_id=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    said.append(await client.until(b"event: direct_ended"))


async def test_no_canary_leaves_by_any_way(tmp_path: Path, log: list[str]) -> None:
    """Right and wrong keys, failing engines and agents, refused nodes and refreshes, all at level debug."""
    (tmp_path / "engine.key").write_text(ENGINE_KEY + "\n", encoding="utf-8")
    (tmp_path / "admin.token").write_text(ADMIN + "\n", encoding="utf-8")
    keys = [{"name": "k", "sha256": hashlib.sha256(API_KEY.encode()).hexdigest()}]
    said: list[bytes] = []
    async with FakeUp(_fails, probe=healthy) as up:
        models = [
            {"id": "m", "providers": {"p1": "m"}},
            {"id": "agent", "direct": {"node": "n1", "adapter": "cli", "target": "agent"}},
        ]
        options = {"nodes": _nodes(up.url), "models": models, "auth": {"api_keys": keys}}
        async with stack(tmp_path, Engine(up.url), checks_request=False, **options) as s:
            await asyncio.wait_for(_wide(s, said), 60)
            said.append(json.dumps(s.nodes[0]._picture()).encode())
        used = {exchange.field("authorization") for exchange in up.requests}

    assert used == {f"Bearer {ENGINE_KEY}"}
    assert len(said) == 16
    assert [line for line in log if CANARY in line] == []
    assert [body for body in said if CANARY.encode() in body] == []


@pytest.mark.parametrize(
    "endpoint", [f"http://{USERINFO}@127.0.0.1:9/v1", f"http://127.0.0.1:9/v1?key={QUERY}", f"ftp://{USERINFO}@x"]
)
def test_config_check_names_the_place_of_a_secret_and_not_the_secret(tmp_path: Path, endpoint: str) -> None:
    """Credentials in an endpoint, a key instead of its hash, a value of the wrong type: found, never repeated."""
    nodes = _nodes(endpoint)
    nodes[0]["token_sha256"] = NODE_TOKEN
    data = {
        "edge": {"id": "edge-test"},
        "nodes": nodes,
        "models": [{"id": "m", "providers": {"p1": "m"}}],
        "auth": {"api_keys": [{"name": "k", "sha256": API_KEY}], "admin_token_file": [ADMIN]},
    }
    path = tmp_path / "edge.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    loaded = load_edge(path)
    told = [str(finding) for finding in loaded.findings]

    assert not loaded.ok
    assert len(told) >= 3
    assert [line for line in told if CANARY in line] == []
