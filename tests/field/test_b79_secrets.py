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

from iop.commands import edge as edge_command
from iop.commands import node as node_command
from iop.config.load import load_edge, load_node
from iop.wiring.logs import JsonLines, TextLines
from iop.wiring.node import build_node
from tests.fakes.agents import python
from tests.fakes.edge_under_test import config as edge_config
from tests.fakes.edge_under_test import edge_under_test
from tests.fakes.fake_up import Exchange, FakeUp, healthy, response
from tests.fakes.link_peers import FakeNode, hello
from tests.fakes.stack import CHAT, Engine, Stack, chat, stack
from tests.fakes.until import until

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


#: secrets at every place where a person may put one, of the wrong form or under a key that is not there
BAD_EDGES = {
    "wrong values": """\
edge: {id: edge-test, admin_token: canary-1}
auth:
  api_keys: [{name: k, sha256: canary-2}, {name: k2, key: canary-3}, canary-4, {name: [canary-5], sha256: [canary-6]}]
  admin_token_file: [canary-7]
nodes:
  - id: n1
    token_sha256: canary-8
    token: canary-9
    adapters:
      cli:
        enabled: true
        targets:
          a: {kind: text, command: [a], env: [canary-10]}
          b: {kind: text, command: [canary-11, 1], env: {A: [canary-12]}}
      openai_compat_instances:
        - {name: e1, enabled: true, provider: other, endpoint: canary-13, api_key: canary-14, api_key_file: [canary-15]}
    providers: [{id: p1, type: other, category: local_inference, adapter: e1, capacity: 3}]
models: [{id: m, providers: {p1: x}}]
""",
    "broken YAML": "edge: {id: e}\nauth: {api_keys: [{name: k, sha256: canary-1]}\n",
    "an open quote": 'edge: {id: e}\nauth: {admin_token: "canary-1\nnodes: []\n',
    "a tag": "edge: {id: e}\nauth: {admin_token: !canary-1 canary-2}\nnodes: []\n",
    "an alias": "edge: {id: e}\nauth: {admin_token: *canary-1}\nnodes: []\n",
    "a tag handle": "edge: {id: e}\nauth: {admin_token: !canary-1!canary-2}\nnodes: []\n",
    "a second anchor": "edge: &canary-1 {id: e}\nauth: {admin_token: &canary-1 x}\nnodes: []\n",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_EDGES)
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_what_config_check_prints_has_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, option: list[str]
) -> None:
    """`edge config check`, for people and as JSON, of files with secrets in wrong places: exit 1, none is repeated."""
    path = tmp_path / "edge.yaml"
    path.write_text(BAD_EDGES[name], encoding="utf-8")
    assert edge_command.main(["--config", str(path), "config", "check", *option]) == 1
    told = "".join(capsys.readouterr())
    assert "error" in told
    assert [line for line in told.splitlines() if CANARY in line] == []


def test_a_refused_node_yaml_is_told_without_its_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A token in place of its file, credentials in the Edge's address: named by place, not repeated."""
    path = tmp_path / "node.yaml"
    path.write_text(
        "node: {id: n1, token: canary-1, token_file: [canary-2]}\n"
        'edge: {addr: "canary-3:canary-4@127.0.0.1:18084", token: canary-5}\n',
        encoding="utf-8",
    )
    assert node_command.main(["--config", str(path), "serve"]) == 1
    told = "".join(capsys.readouterr())
    assert told.count("error") >= 4
    assert [line for line in told.splitlines() if CANARY in line] == []


async def test_the_token_file_of_a_node_is_never_told(tmp_path: Path, log: list[str]) -> None:
    """An Edge refuses the token and then, with another config, takes it: no log and no status of either end has it."""
    (tmp_path / "node.token").write_text(NODE_TOKEN + "\n", encoding="utf-8")
    (tmp_path / "node.token").chmod(0o600)
    for accepted in (False, True):
        digest = hashlib.sha256((NODE_TOKEN if accepted else "another").encode()).hexdigest()
        async with edge_under_test(tmp_path, nodes=[{**edge_config()["nodes"][0], "token_sha256": digest}]) as edge:
            path = tmp_path / "node.yaml"
            addr = edge.ready["nodes"]
            path.write_text(f"node: {{id: n1, token_file: node.token}}\nedge: {{addr: '{addr}'}}\n", encoding="utf-8")
            loaded = load_node(path).config
            assert loaded is not None
            service = build_node(loaded, folder=tmp_path, release_id="test")
            status = (await service.start()).rpartition("=")[2]
            wanted = "connected" if accepted else "turned_away:bad_token"
            await until(lambda: service._dialer.state == wanted)  # noqa: B023 - within this turn
            async with edge.session.get(f"http://{status}/status") as response:
                told = [await response.text(), json.dumps(edge.status()), *_texts(tmp_path / "state")]
            await service.stop()
        assert [text for text in told if CANARY in text] == []
    assert log
    assert [line for line in log if CANARY in line] == []


def _texts(folder: Path) -> list[str]:
    """What a node has written into its state folder."""
    return [path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())]
