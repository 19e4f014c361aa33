"""Processes that speak TLS with each other on every port, with a CA of their own."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from tests.cluster.harness import ROOT, Cluster, cluster, python_command
from tests.cluster.load import burst, payload, send
from tests.fakes.authority import Authority


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Three nodes, Edge and Control Plane over TLS."""
    async with cluster(tmp_path, tls=Authority(tmp_path)) as made:
        yield made


async def _dry_run(made: Cluster, *more: str) -> tuple[int, str]:
    """Exit code and output of `config refresh --mode dry-run`."""
    refresh = ["config", "refresh", "--mode", "dry-run", "--addr", made.processes["edge"].ready["admin"], *more]
    child = await asyncio.create_subprocess_exec(
        *python_command("edge", "--config", str(made.folder / "edge.yaml"), *refresh),
        env={**os.environ, "PYTHONPATH": str(ROOT / "runtime")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await child.communicate()
    assert child.returncode is not None
    return child.returncode, out.decode()


async def test_a_whole_cluster_over_tls(secured: Cluster) -> None:
    """The SDK with the CA, status through the Control Plane, a burst over the brim, a dry-run, a killed node."""
    authority = secured.tls
    assert authority is not None
    http = DefaultAsyncHttpxClient(verify=authority.trust(), trust_env=False)
    async with AsyncOpenAI(base_url=secured.openai, api_key="none", http_client=http, max_retries=0) as sdk:
        answer = await sdk.chat.completions.create(
            model="pool", messages=[{"role": "user", "content": "hi"}], max_tokens=3
        )
        assert answer.choices[0].finish_reason in {"stop", "length"}

    seen = await secured.get(f"{secured.at('control', 'control')}/edges/edge-test/status")
    assert [node["connected"] for node in seen["nodes"]] == [True, True, True]
    assert seen["control"]["stale"] is False

    for endpoint in ("chat", "responses"):
        assert all(answer.ok for answer in await burst(secured, secured.total + 1, endpoint, tokens=20))
    await secured.calm()

    code, told = await _dry_run(secured, "--ca-file", str(authority.ca_file))
    assert code in {0, 3}, told  # 3: port 0 stands in the file
    code, told = await _dry_run(secured)
    assert code == 4
    assert "--ca-file" in told

    await secured.processes["gx10-vllm-node"].kill()
    await secured.status_where(lambda s: s["nodes"][1]["state"] == "offline", "the node is offline")
    await secured.start_node("gx10-vllm-node")
    await secured.all_ready()
    assert (await send(secured, payload("chat", tokens=3, stream=False), "chat", "after")).ok
    await secured.calm()
