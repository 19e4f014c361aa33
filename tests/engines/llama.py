"""Real llama.cpp servers as the engines of a cluster, and what they tell of themselves."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from playbooks.roles.engines.files.install_llama import NOT_TO_BE_HAD
from tests.cluster.harness import ROOT, Cluster, eventually
from tests.engines.tiny_model import write_tiny_model

INSTALLER = ROOT / "playbooks" / "roles" / "engines" / "files" / "install_llama.py"

CONTEXT = 16384  # tokens of each slot; the tiny model needs half a kilobyte for each


def installed_llama(folder: Path) -> "LlamaServers":
    """Install llama.cpp (once) and write the model into `folder`; where it cannot be had: skip."""
    command = [sys.executable, str(INSTALLER), "--project", str(ROOT), "--into", str(ROOT / "build" / "engines")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode in NOT_TO_BE_HAD:
        pytest.skip(done.stderr.rpartition("error: ")[2].strip())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return LlamaServers(found["python"], found["launcher"], str(write_tiny_model(folder / "tiny.gguf")))


@dataclass(frozen=True)
class LlamaServers:
    """llama.cpp's server with as many slots as the provider has, and a generated model."""

    python: str
    launcher: str
    model: str
    ready_word: str = "engine"
    on_disconnect: str = "cancel_streams"
    context: int = CONTEXT
    #: provider -> most tokens of an answer, for clients that set no limit of their own; without an entry: none
    predict: Mapping[str, int] = field(default_factory=dict)

    def command(self, made: Cluster, provider: str, address: str) -> Sequence[str]:
        """One thread: three servers share the machine."""
        return (
            self.python, "-I", "-u", self.launcher, "--model", self.model, "--alias", f"engine-{provider}",
            "--listen", address, "--slots", str(made.capacities[provider]), "--context", str(self.context),
            "--predict", str(self.predict.get(provider, -1)), "--threads", "1",
        )  # fmt: skip

    async def check_calm(self, made: Cluster, provider: str) -> None:
        """It works on nothing and holds nothing back."""

        async def idle() -> bool:
            found = await metrics(made, provider)
            assert found["requests_deferred"] == 0, (provider, found)
            return found["requests_processing"] == 0

        await eventually(idle, f"{provider} works on nothing")


async def metrics(made: Cluster, provider: str) -> dict[str, float]:
    """llama.cpp's own numbers, without its prefix."""
    answer = (await made.client.get(f"http://{made.engine(provider)}/metrics")).raise_for_status()
    lines = [line.split() for line in answer.text.splitlines() if not line.startswith("#")]
    return {name.removeprefix("llamacpp:"): float(value) for name, value in lines}


@contextlib.asynccontextmanager
async def watched(made: Cluster) -> AsyncIterator[dict[str, list[tuple[float, float]]]]:
    """While the block runs: (processing, deferred) of every engine, over and over."""
    seen: dict[str, list[tuple[float, float]]] = {provider: [] for provider in made.capacities}

    async def look(provider: str) -> None:
        while True:
            found = await metrics(made, provider)
            seen[provider].append((found["requests_processing"], found["requests_deferred"]))
            await asyncio.sleep(0.02)  # samples of another process; more of them prove no more

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(look(provider)) for provider in made.capacities]
        yield seen
        for task in tasks:
            task.cancel()
