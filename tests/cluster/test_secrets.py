"""Secrets never come out: whole processes at log level debug, every kind of success and failure, everything read."""

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.cluster.harness import DEADLINE, Process, eventually, python_command
from tests.fakes.fake_up import Exchange, FakeUp, chunk, event, healthy, response, stream_head

#: what nobody may see, each easy to find again
SECRETS = {
    name: f"canary-{name}-5f2e91"
    for name in (
        "apikey", "wrongkey", "admintoken", "nodetoken", "strangetoken", "enginekey", "envvalue", "prompt", "answer",
        "query", "badhash",
    )
}  # fmt: skip
CHAT = "/v1/chat/completions"
AGENT = """
import os, sys
prompt = sys.stdin.read()
print("noise on stderr", prompt, os.environ["SECRET"], file=sys.stderr)
if "fail" in prompt:
    print("the last line:", os.environ["SECRET"], file=sys.stderr)
    sys.exit(3)
print(os.environ["SAID"], end="")
"""


@dataclass
class Place:
    """The processes, and what was read of them."""

    folder: Path
    client: httpx.AsyncClient
    up: FakeUp
    processes: dict[str, Process] = field(default_factory=dict)
    #: what was said, by where it was
    read: dict[str, str] = field(default_factory=dict)

    async def start(self, name: str, kind: str, **config: Any) -> None:
        """Start a process at level debug."""
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        command = python_command(kind, "--config", str(path), "serve", "--log-level", "debug")
        form = "json" if kind == "edge" else "text"
        self.processes[name] = await Process.start(self.folder, name, [*command, "--log-format", form])

    def at(self, port: str, process: str = "edge") -> str:
        return f"http://{self.processes[process].ready[port]}"

    async def ask(self, body: Any, path: str = CHAT, *, key: str = SECRETS["apikey"]) -> httpx.Response:
        """Send a request to the OpenAI port."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {key}"}
        return await self.client.post(
            f"{self.at('openai')}{path}?api_key={SECRETS['query']}", content=data, headers=headers
        )

    async def own_error(self, what: str, body: Any, **options: Any) -> None:
        """A request that iop itself answers with an error: nothing of the request, and no other secret, is in it."""
        answer = await self.ask(body, **options)
        assert answer.status_code >= 400
        self.read[f"error: {what}"] = answer.text

    async def get(self, what: str, url: str) -> None:
        """Read a document."""
        self.read[what] = (await self.client.get(url)).text


def chat(words: str = "", **more: Any) -> dict[str, Any]:
    """A request whose prompt is a secret."""
    return {"model": "m", "messages": [{"role": "user", "content": f"{SECRETS['prompt']} {words}"}], **more}


async def engine(exchange: Exchange) -> None:
    """Does what the prompt says, and tells the key it was given."""
    told = f"bad key {exchange.field('Authorization')} for {SECRETS['prompt']}"
    words = str(exchange.json["messages"][0]["content"])
    if "refuse" in words:
        await exchange.send(response(401, json.dumps({"error": {"message": told, "code": told}}).encode()))
    elif "break down" in words:
        await exchange.send(response(500, json.dumps({"error": {"message": told}}).encode()))
    elif "babble" in words:
        await exchange.send(f"{told}\r\n\r\n".encode())
        exchange.close()
    elif "bad header" in words:
        await exchange.send(f"HTTP/1.1 200 OK\r\n{told}\r\n\r\n".encode())
        exchange.close()
    elif "bad chunk" in words:
        await exchange.send(stream_head() + f"{told}\r\n".encode())
        exchange.close()
    elif "event" in words:
        await exchange.send(stream_head() + chunk(event({"error": {"message": told}})) + b"0\r\n\r\n")
    elif "cut" in words:
        await exchange.send(stream_head() + chunk(event({"choices": [{"delta": {"content": SECRETS["answer"]}}]})))
        exchange.reset()
    elif "hang up" in words:
        exchange.reset()
    else:
        await exchange.send(
            response(200, json.dumps({"choices": [{"message": {"content": SECRETS["answer"]}}]}).encode())
        )


async def probe(exchange: Exchange) -> None:
    """A model list that tells the key it was asked with."""
    assert exchange.field("Authorization") == f"Bearer {SECRETS['enginekey']}"
    await healthy(exchange)


def edge_config(place: Place) -> dict[str, Any]:
    """One node with an engine that wants a key, an agent with a secret environment; every door has its secret."""
    agent = {
        "kind": "text", "command": [sys.executable, str(place.folder / "agent.py")],
        "env": {"SECRET": SECRETS["envvalue"], "SAID": SECRETS["answer"]},
    }  # fmt: skip
    instance = {
        "name": "e1",
        "enabled": True,
        "provider": "other",
        "endpoint": place.up.url,
        "api_key_file": "enginekey",
    }
    provider = {"id": "p1", "type": "other", "category": "local_inference", "adapter": "e1", "capacity": 1}
    node = {
        "id": "n1", "token_sha256": hashed("nodetoken"), "providers": [provider],
        "adapters": {"cli": {"enabled": True, "targets": {"echo": agent}}, "openai_compat_instances": [instance]},
    }  # fmt: skip
    return {
        "edge": {"id": "edge-test"},
        "listen": dict.fromkeys(("openai", "nodes", "admin"), "127.0.0.1:0"),
        "auth": {
            "api_keys": [{"name": "alice", "sha256": hashed("apikey")}],
            "admin_token_file": "admintoken",
        },
        "nodes": [node],
        "models": [
            {"id": "m", "providers": {"p1": "engine-m"}},
            {"id": "agent", "direct": {"node": "n1", "adapter": "cli", "target": "echo"}},
        ],
        "queue": {"max_wait": "1s"},
    }  # fmt: skip


def hashed(name: str) -> str:
    """SHA-256 of a secret."""
    return hashlib.sha256(SECRETS[name].encode()).hexdigest()


@asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    """Edge, a node, a node with a strange token, Control Plane, and the engine in this process."""
    for name in ("admintoken", "nodetoken", "strangetoken", "enginekey"):
        path = folder / name
        path.touch(0o600)
        path.write_text(SECRETS[name], encoding="utf-8")
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(FakeUp(engine, probe=probe))
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=DEADLINE))
        made = Place(folder, client, up)
        try:
            config = edge_config(made)
            await made.start("edge", "edge", **config)
            addr = made.processes["edge"].ready["nodes"]
            for name, token in (("n1", "nodetoken"), ("stranger", "strangetoken")):
                node = {"id": "n1", "token_file": token}
                await made.start(name, "node", node=node, edge={"addr": addr}, state_dir=f"state-{name}")
            edges = [{"id": "edge-test", "admin_url": made.at("admin"), "token_file": "admintoken"}]
            await made.start("control", "control", listen="127.0.0.1:0", edges=edges)
            await eventually(lambda: is_ready(made), "the provider is ready and the stranger was turned away")
            yield made
        finally:
            for process in made.processes.values():
                await process.stop()


async def is_ready(place: Place) -> bool:
    """The provider takes work, and the node with the wrong token was refused."""
    status = (await place.client.get(f"{place.at('admin')}/status")).json()
    return status["provider_snapshots"][0]["state"] == "ready" and bool(status["turned_away"])


async def test_no_secret_comes_out_of_any_process(tmp_path: Path) -> None:
    """Keys, tokens, environment, prompts and answers are in no log, status, event, metric or error of iop's own."""
    async with place(tmp_path) as made:
        await use_it(made)
        await misuse_it(made)
        await change_it(made)
        await look_at_it(made)
        await asyncio.gather(*(process.stop() for process in made.processes.values()))
        for name, process in made.processes.items():
            made.read[f"log of {name}"] = process.log.read_text(encoding="utf-8")
    found = {(secret, where) for where, text in made.read.items() for secret, word in SECRETS.items() if word in text}
    assert found == set()
    log = [json.loads(line) for line in made.read["log of edge"].splitlines() if line.startswith("{")]
    outcomes = {line.get("outcome") for line in log if line["message"] == "request"}
    assert {"completed", "failed", "refused", "answered"} <= outcomes
    assert "request_id=trace-me" in made.read["log of n1"]
    assert [line["key"] for line in log if line.get("request_id") == "trace-me"] == ["alice"]


async def use_it(made: Place) -> None:
    """Good answers on both routes, and what an engine or agent can do wrong."""
    headers = {"Authorization": f"Bearer {SECRETS['apikey']}", "x-request-id": "trace-me"}
    good = await made.client.post(made.at("openai") + CHAT, json=chat(), headers=headers)
    assert SECRETS["answer"] in good.text
    agent = await made.ask({**chat(), "model": "agent"})
    assert agent.text.count(SECRETS["answer"]) == 1
    failed = await made.ask({**chat("fail"), "model": "agent"})
    assert f"the last line: {SECRETS['envvalue']}" in failed.text  # what an agent says at its end is told to its client
    for words in ("refuse", "break down"):  # an engine's own error is the client's, as it is
        assert SECRETS["enginekey"] in (await made.ask(chat(words))).text
    assert SECRETS["enginekey"] in (await made.ask(chat("event", stream=True))).text
    for words in ("babble", "bad header", "hang up"):
        await made.own_error(words, chat(words))
    for words in ("cut", "bad chunk"):
        try:
            answer = await made.ask(chat(words, stream=True))
        except httpx.HTTPError as error:
            made.read[f"error: {words}"] = str(error)
        else:
            made.read[f"error: {words}"] = answer.text.replace(SECRETS["answer"], "")


async def misuse_it(made: Place) -> None:
    """Wrong keys, broken JSON, bytes that are no HTTP."""
    await made.own_error("wrong key", chat(), key=SECRETS["wrongkey"])
    key = SECRETS["apikey"]
    for body in (f'{{"key": "{key}"', f'{{"{key}": 1, "{key}": 2}}', f'"{key}"', f'{{"model": ["{key}"]}}', f"{key}\0"):
        await made.own_error(body[:4], body.encode())
    await made.own_error("nul", {**chat("\0"), "model": "agent"})
    await made.own_error("no model", {"messages": chat()["messages"]})
    admin = await made.client.post(made.at("admin") + "/config/refresh", headers={"Authorization": f"Bearer {key}"})
    made.read["error: admin"] = admin.text
    host, port = made.processes["edge"].ready["openai"].rsplit(":", 1)
    for line in (f"Authorization\0: Bearer {key}", f"Authorization: Bearer {key}{'x' * 70_000}", f"{key}"):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n".encode())
        await asyncio.wait_for(reader.read(), DEADLINE)
        writer.close()


async def change_it(made: Place) -> None:
    """Candidates of the config that are refused where a secret stands in the wrong place."""
    headers = {"Authorization": f"Bearer {SECRETS['admintoken']}"}
    for number, path in enumerate(
        (("auth", "api_keys", 0, "sha256"), ("nodes", 0, "token_sha256"), ("queue", "max_wait"))
    ):
        config: Any = edge_config(made)
        entry = config
        for step in path[:-1]:
            entry = entry[step]
        entry[path[-1]] = SECRETS["badhash"]
        source = str(made.folder / "edge.yaml")
        body = {"mode": "apply", "config": yaml.safe_dump(config), "source": source}
        answer = await made.client.post(made.at("admin") + "/config/refresh", json=body, headers=headers)
        assert answer.status_code >= 400
        made.read[f"refusal {number}"] = answer.text
    config = edge_config(made)
    config["nodes"][0]["adapters"]["cli"]["targets"]["echo"]["env"] = {"SECRET": [SECRETS["envvalue"]]}
    body = {"mode": "apply", "config": yaml.safe_dump(config), "source": str(made.folder / "edge.yaml")}
    answer = await made.client.post(made.at("admin") + "/config/refresh", json=body, headers=headers)
    made.read["refusal env"] = answer.text


async def look_at_it(made: Place) -> None:
    """Everything that can be read over HTTP."""
    for name in ("status", "metrics", "openapi.json"):
        await made.get(name, f"{made.at('admin')}/{name}")
    await made.get("node status", f"{made.at('status', 'n1')}/status")
    await eventually(lambda: _control_has_seen(made), "the Control Plane has read the Edge")
    await made.get("control status", f"{made.at('control', 'control')}/edges/edge-test/status")
    for name, url in (
        ("events", f"{made.at('admin')}/events"),
        ("control events", f"{made.at('control', 'control')}/edges/edge-test/events"),
    ):
        made.read[name] = ""
        last = json.loads(made.read["status"])["events"]["last_seq"]
        async with made.client.stream("GET", url, headers={"Last-Event-ID": "0"}) as stream:
            async for line in stream.aiter_lines():
                made.read[name] += line + "\n"
                if line == f"id: {last}":
                    break
        assert "event: ended" in made.read[name]


async def _control_has_seen(made: Place) -> bool:
    answer = await made.client.get(f"{made.at('control', 'control')}/edges/edge-test/status")
    return answer.status_code == 200
