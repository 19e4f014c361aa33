"""An Edge whose sockets outlive it is restarted under load: nobody is refused, nothing is cut, nothing runs twice."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import openai
import pytest

from tests.cluster.harness import DEADLINE, Cluster, Process, eventually, python_command
from tests.cluster.held import held_cluster
from tests.cluster.load import PATHS, payload

RESTARTS = 3
TOKENS = 15


@dataclass
class Load:
    """Clients without retries that ask again and again; what each got, and the longest wait in seconds."""

    base_url: str
    bad: list[str] = field(default_factory=list)
    good: dict[str, int] = field(default_factory=dict)
    longest: float = 0.0
    ending: bool = False

    async def client(self, kind: str) -> None:
        """One client of a kind, until the end."""
        pooled = None if kind == "fresh" else 1
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0 if pooled is None else pooled)
        async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE, limits=limits) as http:
            sdk = openai.AsyncOpenAI(base_url=self.base_url, api_key="none", max_retries=0, http_client=http)
            while not self.ending:
                began = time.monotonic()
                try:
                    trouble = await _KINDS[kind](sdk, http, self.base_url)
                except (openai.OpenAIError, httpx.HTTPError) as error:
                    trouble = f"{error!r} {error.__cause__!r}"
                self.longest = max(self.longest, time.monotonic() - began)
                self.good[kind] = self.good.get(kind, 0) + (trouble is None)
                if trouble is not None:
                    self.bad.append(f"{kind}: {trouble}")

    def total(self) -> int:
        """Good answers so far."""
        return sum(self.good.values())


async def _chat(sdk: openai.AsyncOpenAI, _http: httpx.AsyncClient, _url: str) -> str | None:
    answer = await sdk.chat.completions.create(
        model="pool", messages=[{"role": "user", "content": "hi"}], max_tokens=TOKENS
    )
    return None if answer.choices[0].message.content and answer.choices[0].finish_reason else f"not whole: {answer}"


async def _stream(sdk: openai.AsyncOpenAI, _http: httpx.AsyncClient, _url: str) -> str | None:
    last = None
    async with await sdk.chat.completions.create(
        model="pool", messages=[{"role": "user", "content": "hi"}], max_tokens=TOKENS, stream=True
    ) as chunks:
        async for chunk in chunks:
            last = chunk.choices[0].finish_reason if chunk.choices else last
    return None if last else "a stream without an end"


async def _response(sdk: openai.AsyncOpenAI, _http: httpx.AsyncClient, _url: str) -> str | None:
    types = []
    async with await sdk.responses.create(model="pool", input="hi", max_output_tokens=TOKENS, stream=True) as events:
        async for event in events:
            types.append(event.type)
    return None if types[-1:] == ["response.completed"] else f"ended with {types[-1:]}"


async def _agent(sdk: openai.AsyncOpenAI, _http: httpx.AsyncClient, _url: str) -> str | None:
    answer = await sdk.chat.completions.create(model="agent", messages=[{"role": "user", "content": "word"}])
    return None if answer.choices[0].message.content == "agent: word" else f"not the word: {answer}"


async def _fresh(_sdk: openai.AsyncOpenAI, http: httpx.AsyncClient, url: str) -> str | None:
    """One connection per request, and its end at `Connection: close`."""
    answer = await http.post(url + PATHS["chat"], json=payload("chat", tokens=TOKENS, stream=True))
    whole = answer.status_code == 200 and answer.text.rstrip().endswith("[DONE]")
    return None if whole else f"{answer.status_code} {answer.text[-200:]}"


_KINDS = {"chat": _chat, "stream": _stream, "response": _response, "agent": _agent, "fresh": _fresh}


@contextlib.asynccontextmanager
async def steady(made: Cluster) -> AsyncIterator[Load]:
    """Fifteen clients, three of each kind but two agents; more than the pool has slots."""
    load = Load(made.openai)
    async with asyncio.TaskGroup() as group:
        for kind in [*_KINDS, *_KINDS, "chat", "stream", "response", "fresh", "fresh"]:
            group.create_task(load.client(kind))
        try:
            yield load
        finally:
            load.ending = True


async def _moves_on(load: Load, answers: int = 20) -> None:
    target = load.total() + answers

    async def enough() -> bool:
        return load.total() >= target or bool(load.bad)

    await eventually(enough, "the load goes on")


async def test_three_restarts_under_load_fail_nobody(tmp_path: Path) -> None:
    """Each request of each client gets its whole answer, once: none failed, none ran twice, none waits at the end."""
    async with held_cluster(tmp_path, options={"drain_timeout": "40s"}) as made:
        instances = set()
        async with steady(made) as load:
            for _ in range(RESTARTS):
                await _moves_on(load)
                instances.add((await made.status())["edge"]["instance_id"])
                await made.restart_edge()
            await _moves_on(load)
            instances.add((await made.status())["edge"]["instance_id"])
        status = await made.calm()
        stats = [await made.stats(provider) for provider in made.capacities]

        assert load.bad == []
        assert len(instances) == RESTARTS + 1
        assert set(status["anomalies"].values()) == {0}
        asked = load.total() - load.good["agent"]
        assert {name: sum(one[name] for one in stats) for name in ("started", "completed", "cancelled")} == {
            "started": asked, "completed": asked, "cancelled": 0,
        }  # fmt: skip
        assert load.longest < DEADLINE
        assert made.state["ends"] == 0


async def test_a_drain_by_a_person_outlives_the_edge(tmp_path: Path) -> None:
    """A lease of hours is there after a restart and after a kill, with its reason; ended, it stays ended."""
    async with held_cluster(tmp_path) as made:
        node = (await made.status())["nodes"][0]["id"]
        url = f"{made.at('admin')}/nodes/{node}/drain"
        token = (tmp_path / "admin.token").read_text(encoding="utf-8").strip()
        headers = {"Authorization": f"Bearer {token}"}
        asked = {"lease_s": 7200, "by": "anna", "reason": "new disk"}
        assert (await made.client.put(url, json=asked, headers=headers)).status_code == 200
        for how in (signal.SIGHUP, signal.SIGKILL):
            await made.restart_edge(how)
            found = (await made.status())["nodes"][0]
            assert (found["state"], found["drain"]["reason"]) == ("draining", "new disk (by anna)")
            assert 0 < found["drain"]["left_s"] <= 7200
        assert (await made.client.delete(url, headers=headers)).status_code == 200
        await made.restart_edge()
        await made.all_ready()


async def test_a_killed_edge_is_back_and_whoever_comes_meanwhile_waits(tmp_path: Path) -> None:
    """A request that comes when the Edge can take nothing more is served by the next one."""
    async with held_cluster(tmp_path) as made:
        worker = made.state["worker"]
        os.kill(worker, signal.SIGSTOP)

        async def stopped() -> bool:
            return Path(f"/proc/{worker}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"

        await eventually(stopped, "the Edge hangs")
        body = payload("chat", tokens=2, stream=False)
        late = asyncio.ensure_future(made.client.post(made.openai + PATHS["chat"], json=body))
        await made.restart_edge(signal.SIGKILL)
        assert (await late).status_code == 200
        assert (made.state["ends"], made.state["last_end"]) == (1, "signal 9 (SIGKILL)")
        await made.all_ready()
        await made.calm()


async def test_a_killed_holder_leaves_an_edge_that_ends_well(tmp_path: Path) -> None:
    """Its worker notices, serves what it has, and lets the addresses go; the next holder waits for them."""
    async with held_cluster(tmp_path) as made:
        body = payload("chat", tokens=60, stream=False)
        under_way = asyncio.ensure_future(made.client.post(made.openai + PATHS["chat"], json=body))
        await made.status_where(lambda s: s["totals"]["in_flight"] == 1, "the request runs")
        before = made.state
        await made.processes["edge"].kill()
        await made.start_edge()
        assert (await under_way).status_code == 200
        assert made.state["listeners"] == before["listeners"]
        assert made.state["worker"] != before["worker"]
        await made.all_ready()
        await made.calm()


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="no systemd-socket-activate here")
async def test_a_socket_of_systemd_is_taken(tmp_path: Path) -> None:
    """The real program of systemd passes one socket by name; the Edge opens the other two, and serves who waited."""
    (tmp_path / "edge.yaml").write_text(
        "edge: {id: e}\nnodes: []\nmodels: []\nlisten: {openai: 127.0.0.1:0, nodes: 127.0.0.1:0, admin: 127.0.0.1:0}\n",
        encoding="utf-8",
    )
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    edge = python_command("edge", "--config", str(tmp_path / "edge.yaml"), "serve")
    names = [part for name in Process.environment() for part in ("-E", name)]
    command = ["systemd-socket-activate", *names, "--fdname=openai", "-l", address, *edge]
    starting = asyncio.ensure_future(Process.start(tmp_path, "edge", command))
    async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE) as client:

        async def healthy() -> bool:
            return (await client.get(f"http://{address}/healthz")).status_code == 200

        await eventually(healthy, "the first client is served")
    process = await starting
    try:
        assert process.ready["openai"] == address
        assert {process.ready["nodes"], process.ready["admin"]}.isdisjoint({address})
    finally:
        code = await process.stop()
    assert code == 0
    assert process.faults() == []
