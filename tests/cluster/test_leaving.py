"""Leaving and coming: each process under a stop signal with work under way, and starts in any order."""

import asyncio
import json
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.cluster.harness import NODES, Cluster, Process, cluster, eventually, python_command
from tests.cluster.load import Answer, burst, payload, send
from tests.fakes.agents import STUBBORN_TREE, living, python
from tests.fakes.hygiene import handles
from tests.fakes.raw_client import RawClient

MARKER = "iop-leaving-agent"


def _address(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


async def _events_until_end(made: Cluster, seen: list[dict[str, Any]], began: asyncio.Event) -> None:
    url = f"http://{made.processes['edge'].ready['admin']}/events"
    async with made.client.stream("GET", url, headers={"Last-Event-ID": "0"}, timeout=None) as response:
        async for line in response.aiter_lines():
            began.set()
            if line.startswith("data:"):
                seen.append(json.loads(line[5:]))


async def _stop_under_load(made: Cluster, number: signal.Signals, *, times: int) -> tuple[int, list[Answer], Answer]:
    """Fill the pool and the line, open what a stop must not wait for, and signal the Edge `times` times."""
    edge = made.processes["edge"]
    seen: list[dict[str, Any]] = []
    began = asyncio.Event()
    reading = asyncio.ensure_future(_events_until_end(made, seen, began))
    await began.wait()
    idle, upload = [await RawClient.connect(_address(edge.ready["openai"])) for _ in range(2)]
    await upload.send(b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    streams = asyncio.ensure_future(burst(made, 6, "chat", tokens=60))
    whole = asyncio.ensure_future(burst(made, 7, "responses", tokens=60, stream=False))
    direct = asyncio.ensure_future(
        send(made, payload("chat", tokens=1, stream=False, model="agent"), "chat", "direct"),
    )
    await made.status_where(
        lambda s: s["totals"]["in_flight"] == made.total and s["totals"]["queued"] == 3, "a full pool and a line"
    )
    edge.signal(number)
    await eventually(lambda: _not_ready(made), "/readyz says 503")
    for _ in range(times - 1):
        edge.signal(number)
    answers = [*await streams, *await whole]
    code = await asyncio.wait_for(edge.child.wait(), 60)
    await reading
    for client in (idle, upload):
        await client.ended()
        client.close()
    assert not handles(edge.child.pid)
    return code, answers, await direct


async def _not_ready(made: Cluster) -> bool:
    try:
        return (await made.client.get(f"{made.openai.removesuffix('/v1')}/readyz")).status_code == 503
    except httpx.HTTPError:
        return made.processes["edge"].child.returncode is not None


async def _back_to_work(made: Cluster) -> None:
    """The Edge comes back on its ports, the nodes find it, and a burst is served."""
    made.write_edge_config()
    await made.start_edge()
    await made.all_ready()
    assert all(a.ok for a in await burst(made, 11, "chat", tokens=5))
    await made.calm()


async def test_an_edge_finishes_all_kinds_of_work(three_nodes: Cluster) -> None:
    """SIGINT is the same as SIGTERM: all work is answered; idle, half and endless connections do not hold it."""
    code, answers, direct = await _stop_under_load(three_nodes, signal.SIGINT, times=1)

    assert (code, [a for a in answers if not a.ok]) == (0, [])
    assert direct.status == 200
    await _back_to_work(three_nodes)


async def test_a_second_signal_ends_an_edge_at_once(tmp_path: Path) -> None:
    """Far before the work would end: exit 0, waiters get 503 shutting_down, begun streams end in an error."""
    async with cluster(tmp_path, rate=0.2) as made:
        code, answers, _ = await _stop_under_load(made, signal.SIGTERM, times=2)

        assert code == 0
        assert all(not a.ok for a in answers)
        waited = [json.loads(a.text)["error"]["code"] for a in answers if a.status == 503]
        assert waited.count("shutting_down") >= 3
        made.rate = 50.0


async def test_an_edge_cuts_at_drain_timeout(tmp_path: Path) -> None:
    """What is not done by then is told so: an error event in a stream, else 503; the exit code is 0."""
    async with cluster(tmp_path, rate=0.2, options={"drain_timeout": "500ms"}) as made:
        code, answers, _ = await _stop_under_load(made, signal.SIGTERM, times=1)

        assert code == 0
        assert [
            a for a in answers[:6] if a.ok
        ] == []  # the streams: refused in line, or an error event and a visible cut
        assert [json.loads(a.text)["error"]["code"] for a in answers[6:]] == ["shutting_down"] * 7


async def test_a_node_ends_its_agents_and_their_children(tmp_path: Path) -> None:
    """SIGTERM with an agent and its stubborn grandchild at work: cut at drain_timeout, all three are gone, exit 0."""
    agent = {"kind": "text", "command": list(python(STUBBORN_TREE + "time.sleep(600)")), "env": {"IOP_FIELD": MARKER}}

    class WithAgent(Cluster):
        def edge_config(self) -> dict[str, Any]:
            config = super().edge_config()
            config["nodes"][0]["adapters"]["cli"]["targets"]["echo"] = agent
            return config

    made = WithAgent(tmp_path, options={"drain_timeout": "300ms"})
    await made.start()
    asked = asyncio.ensure_future(send(made, payload("chat", tokens=1, stream=True, model="agent"), "chat", "agent"))
    await eventually(lambda: _count(3), "agent, child and grandchild run")
    code = await made.processes["mac-codex-node"].stop()
    answer = await asked

    assert (code, answer.ok) == (0, False)
    await eventually(lambda: _count(0), "none is left")
    await made.status_where(lambda s: s["nodes"][0]["state"] == "offline", "the node is offline")
    await made.close()


async def _count(wanted: int) -> bool:
    return len(list(living(MARKER))) == wanted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_control_and_simulator_end_at_once(three_nodes: Cluster, number: signal.Signals) -> None:
    """Their open streams and answers are cut; exit 0; clients of the Edge see an engine that is gone, not a hang."""
    control, engine = three_nodes.processes["control"], three_nodes.processes["engine-gx10-vllm"]
    url = f"http://{control.ready['control']}/edges/edge-test/events"
    load = asyncio.ensure_future(burst(three_nodes, 10, "chat", tokens=60))
    await three_nodes.status_where(lambda s: s["totals"]["in_flight"] == 10, "a full pool")
    async with three_nodes.client.stream("GET", url, headers={"Last-Event-ID": "0"}) as response:
        await anext(response.aiter_bytes())
        for process in (control, engine):
            process.signal(number)
        codes = [await asyncio.wait_for(process.child.wait(), 60) for process in (control, engine)]

    assert codes == [0, 0]
    assert len([a for a in await load if not a.ok]) <= 4


async def test_any_order_of_starts(tmp_path: Path) -> None:
    """Control Plane and nodes first, the Edge last; an Edge that restarts under a line is found again by all."""
    made = Cluster(tmp_path)
    await asyncio.gather(*(made.start_engine(p) for p in made.capacities))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        admin = free.getsockname()[1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nodes = free.getsockname()[1]
    made.options["listen"] = {
        "openai": "127.0.0.1:0", "nodes": f"127.0.0.1:{nodes}", "admin": f"127.0.0.1:{admin}",
    }  # fmt: skip
    made.processes["edge"] = _Absent({"nodes": f"127.0.0.1:{nodes}", "admin": f"127.0.0.1:{admin}"})  # type: ignore[assignment]
    await asyncio.gather(made.start_control(), *(made.start_node(n) for n in NODES))
    del made.processes["edge"]
    made.write_edge_config()
    await made.start_edge()
    await made.all_ready()
    assert all(a.ok for a in await burst(made, 11, "chat", tokens=5))

    load = asyncio.ensure_future(burst(made, 14, "chat", tokens=200, stream=False))
    await made.status_where(lambda s: s["totals"]["queued"] == 4, "a line")
    await made.processes["edge"].kill()
    assert all(a.status == 0 for a in await load)  # a killed process says nothing
    made.options["listen"]["openai"] = made.processes["edge"].ready["openai"]
    made.write_edge_config()
    await made.start_edge()
    await made.all_ready()
    seen = await made.calm()
    assert seen["totals"]["completed"] == 0
    assert all(a.ok for a in await burst(made, 11, "responses", tokens=5))
    await made.close()


class _Absent:
    """The Edge's addresses before there is an Edge."""

    def __init__(self, ready: dict[str, str]) -> None:
        self.ready = ready


@pytest.mark.parametrize("which", ["edge", "node", "control", "simulator"])
async def test_a_signal_right_after_the_ready_line(tmp_path: Path, which: str) -> None:
    """Ready and stopped in one breath: exit 0, nothing odd in the log."""
    process = await Process.start(tmp_path, which, _commands(tmp_path)[which])

    assert await process.stop() == 0
    assert process.faults() == []


@pytest.mark.parametrize("which", ["edge", "node", "control", "simulator"])
async def test_a_signal_while_python_still_loads(tmp_path: Path, which: str) -> None:
    """The process ends by the signal, or with 0 if it hears it already; it says nothing, and has made nothing."""
    command = _commands(tmp_path)[which]
    before = sorted(tmp_path.iterdir())
    child = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=Process.environment(),
    )  # fmt: skip
    child.send_signal(signal.SIGTERM)
    out, err = await asyncio.wait_for(child.communicate(), 60)

    assert child.returncode in {0, -signal.SIGTERM}
    assert (out, err) == (b"", b"")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("which", ["edge", "node", "control", "simulator"])
async def test_a_busy_port_is_named_with_its_owner(tmp_path: Path, which: str) -> None:
    """Exit 1; stderr names the address, the pid and the program that holds it, without a traceback."""
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c",
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); "
        "sys.stdin.read()",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None
    port = int(await holder.stdout.readline())
    child = await asyncio.create_subprocess_exec(
        *_commands(tmp_path, f"127.0.0.1:{port}")[which],
        cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=Process.environment(),
    )  # fmt: skip
    out, err = await child.communicate()
    holder.kill()
    await holder.communicate()

    assert (child.returncode, out) == (1, b"")
    assert f"127.0.0.1:{port} is busy: held by pid {holder.pid} (python".encode() in err
    assert b"Traceback" not in err


def _commands(folder: Path, port: str = "127.0.0.1:0") -> dict[str, list[str]]:
    """How each of the four starts alone; `port` is one address that it listens on."""
    engine = {"name": "e", "enabled": True, "provider": "other", "endpoint": "http://127.0.0.1:9/v1"}
    provider = {"id": "p", "type": "other", "category": "local_inference", "adapter": "e", "capacity": 1}
    files: dict[str, Any] = {
        "edge": {
            "edge": {"id": "edge-test"},
            "listen": {"openai": "127.0.0.1:0", "nodes": "127.0.0.1:0", "admin": port},
            "nodes": [{"id": "n", "adapters": {"openai_compat_instances": [engine]}, "providers": [provider]}],
            "models": [{"id": "m", "providers": {"p": "m"}}],
        },
        "node": {"node": {"id": "n"}, "edge": {"addr": "127.0.0.1:9"}, "status_listen": port},
        "control": {"listen": port, "edges": [{"id": "edge-test", "admin_url": "http://127.0.0.1:9"}]},
    }
    for name, data in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    commands = {name: python_command(name, "--config", str(folder / f"{name}.yaml"), "serve") for name in files}
    return {**commands, "simulator": python_command("simulator", "serve", "--listen", port, "--model", "m")}
