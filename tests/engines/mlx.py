"""Real vllm-mlx and mlx_lm servers on MLX's CPU backend, each behind one provider of an in-process stack."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from playbooks.roles.engines.files.install_llama import NOT_TO_BE_HAD, Failed
from tests.cluster.harness import ROOT
from tests.engines.install_mlx import install
from tests.engines.tiny_hf_model import write_tiny_hf_model
from tests.fakes.lifeline import ends_with_us

#: seconds; the first answer of an MLX server may compile
START = 180.0


@dataclass(frozen=True)
class MlxServers:
    """The Python that has both servers, and the generated model's folder."""

    python: Path
    model: Path

    def vllm_mlx(self, port: int) -> Sequence[str | Path]:
        """vllm-mlx, which serves the model as `m`."""
        return (
            self.python.with_name("vllm-mlx"), "serve", self.model, "--host", "127.0.0.1", "--port", str(port),
            "--served-model-name", "m", "--continuous-batching", "--enable-metrics",
        )  # fmt: skip

    def mlx_lm(self, port: int) -> Sequence[str | Path]:
        """mlx_lm.server, whose name for its model is `default_model`."""
        program = self.python.with_name("mlx_lm.server")
        return program, "--model", self.model, "--host", "127.0.0.1", "--port", str(port)


def installed_mlx(folder: Path) -> MlxServers:
    """Install both servers (once) and write the model into `folder`; the test is skipped where they cannot be had."""
    try:
        python = install(ROOT / "build" / "engines")
    except Failed as failed:
        if failed.code in NOT_TO_BE_HAD:
            pytest.skip(str(failed))
        raise
    return MlxServers(python, write_tiny_hf_model(folder))


@contextlib.asynccontextmanager
async def serving(command: Sequence[str | Path], port: int, folder: Path) -> AsyncIterator[str]:
    """Run a server until the block ends; its base URL, once it lists its models."""
    cache = folder / "cache"
    cache.mkdir()  # without it mlx_lm answers /v1/models with an empty body
    env = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    log = folder / "engine.log"
    with log.open("wb") as out:
        child = await asyncio.create_subprocess_exec(
            *ends_with_us([str(word) for word in command], "KILL"),
            stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out, env=env, cwd=folder,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}/v1"
    try:
        await _listening(child, url, log)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(child.wait(), 10)
        except TimeoutError:
            child.kill()
            await child.wait()


async def _listening(child: asyncio.subprocess.Process, url: str, log: Path) -> None:
    async with asyncio.timeout(START), httpx.AsyncClient(trust_env=False) as client:
        while True:
            assert child.returncode is None, log.read_text(errors="replace")
            with contextlib.suppress(httpx.HTTPError):
                if (await client.get(f"{url}/models")).status_code == 200:
                    return
            await asyncio.sleep(0.1)  # a poll of another process


def free_port() -> int:
    """A port that was free just now; these servers cannot tell which one the system picked."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
