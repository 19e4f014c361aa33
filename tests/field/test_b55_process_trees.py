"""Field case B55: whatever an agent has started is gone when its run is over, however the run ends."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fakes.agents import STUBBORN_TREE, living, python
from tests.fakes.stack import Engine, answer_ok, chat, stack
from tests.fakes.until import until

ENDLESS = python(STUBBORN_TREE + "time.sleep(600)")
#: answers and ends well, and leaves a grandchild with a session of its own that ignores SIGTERM
LEAVES_ONE = python(
    "import subprocess, sys\n"
    "child = 'import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)'\n"
    "command = [sys.executable, '-I', '-S', '-c', child]\n"
    "made = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)\n"
    "made.stdout.readline(); print('done', flush=True)"
)


def ask(**more: Any) -> bytes:
    """A request for the agent."""
    return chat(model="agent", stream=True, **more)


async def test_b55_a_client_that_leaves(tmp_path: Path) -> None:
    """Field case B55: leader, child and grandchild ignore SIGTERM; all are gone before the run counts as ended."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": ENDLESS}) as s:
        client = await s.open(ask())
        await client.until(b'"up')
        assert len(list(living(s.marker))) >= 3
        client.reset()
        await s.idle()
        assert list(living(s.marker)) == []
        assert s.direct() == {"in_flight": 0, "completed": 0, "failed": 0, "cancelled": 1}


async def test_b55_the_agents_own_time_limit(tmp_path: Path) -> None:
    """Field case B55: at the target's `timeout` the tree ends, and the client is told."""
    agent = {"kind": "text", "command": list(ENDLESS), "timeout": "2s"}
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": agent}) as s:
        answer = await s.post(ask())
        assert b"agent_failed" in answer.body
        assert b"not done after 2 s" in answer.body
        await s.idle()
        assert list(living(s.marker)) == []


async def test_b55_silence(tmp_path: Path) -> None:
    """A silent agent ends at `stream.idle_timeout`, with its tree, and the client is told."""
    options = {"stream": {"idle_timeout": "2s"}}
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": ENDLESS}, **options) as s:
        answer = await s.post(ask())
        assert b"silent for 2 s" in answer.body
        await s.idle()
        assert list(living(s.marker)) == []


async def test_b55_a_good_end_leaves_nothing_either(tmp_path: Path) -> None:
    """Field case B55: what an agent left in a session of its own ends although the agent has ended well."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": LEAVES_ONE}) as s:
        answer = await s.post(chat(model="agent"))
        assert answer.json["choices"][0]["message"]["content"] == "done\n"
        await s.idle()
        assert list(living(s.marker)) == []


async def test_b55_a_node_that_stops_under_a_run(tmp_path: Path) -> None:
    """Field case B55: a node takes its agents' trees along when it stops."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": ENDLESS}, checks_request=False) as s:
        client = await s.open(ask())
        await client.until(b'"up')
        await s.nodes[0].stop()
        assert list(living(s.marker)) == []


async def test_b55_a_killed_node_is_tidied_up_by_the_next(tmp_path: Path) -> None:
    """Field case B55: SIGKILL of a node leaves its agent alone; the next start on that host ends the whole tree."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": ENDLESS}, checks_request=False) as s:
        await s.nodes[0].stop()
        await s.until(lambda status: not status["nodes"][0]["connected"])
        with node_process(tmp_path) as first:
            await until(lambda: is_ready(s.status()), within=60)
            client = await s.open(ask())
            await client.until(b'"up')
            assert len(list(living(s.marker))) >= 3
            first.kill()
            with node_process(tmp_path):
                await until(lambda: not list(living(s.marker)), within=60)
                await s.idle()


def is_ready(status: dict[str, Any]) -> bool:
    """Whether the node is connected and its engine known to be up."""
    return bool(status["provider_snapshots"][0]["state"] == "ready")


@contextlib.contextmanager
def node_process(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the node n1 as a process of its own; killed at the end."""
    command = (sys.executable, "-m", "iop.commands.node", "--config", str(folder / "n1.yaml"), "serve")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()
