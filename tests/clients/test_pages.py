"""The how-to pages for clients: each example is run as it stands, with the pool's address and model put in."""

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.load import held, idle, queued
from tests.clients.programs import Npm, program
from tests.cluster.harness import Cluster
from tests.fakes import pages

pytestmark = pytest.mark.asyncio(loop_scope="session")
ADDRESS, MODEL = "http://127.0.0.1:18083/v1", "local-chat"  # as the pages have them
BIN = Path(sys.executable).parent
#: instead of their own instructions, which are 10,000 tokens of the tiny model
BRIEF = "Answer in few words."
OPENCODE = "node_modules/opencode-linux-x64-baseline/bin/opencode"


def examples(page: str, language: str, pool: Cluster, model: str = "short") -> list[str]:
    """The blocks of a language in a how-to page, over this pool."""
    text = pages.text_of(f"docs/how-to/{page}.md")
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found
    return [block.replace(ADDRESS, pool.openai).replace(MODEL, model) for block in found]


async def run(command: list[str], folder: Path, **env: str) -> str:
    """Run a command in a folder that is its home as well; what it says on stdout."""
    home = {"HOME": str(folder), **{f"XDG_{name}_HOME": "" for name in ("CACHE", "CONFIG", "DATA", "STATE")}}
    async with program(command, {**home, **env}, folder) as made:
        return await made.text()


async def completed(pool: Cluster) -> int:
    """How many answers of the pool were whole, once nothing runs any more."""
    await idle(pool)
    count: int = (await pool.status())["totals"]["completed"]
    return count


async def test_python(pool: Cluster, tmp_path: Path) -> None:
    """OpenAI's SDK for Python: models, a streamed answer, a response, and who answered."""
    before = await completed(pool)
    (example,) = examples("use-with-openai-sdk", "python", pool)
    told = await run([sys.executable, "-c", example], tmp_path)

    assert [model in told.splitlines() for model in ("pool", "short")] == [True, True]
    assert re.fullmatch(r"mac-mlx-vllm \d+", told.splitlines()[-1])
    assert len(told) > 200
    assert await completed(pool) - before == 3


@pytest.mark.parametrize("number", [0, 1], ids=["openai", "ai"])
async def test_javascript(pool: Cluster, npm: Npm, tmp_path: Path, number: int) -> None:
    """OpenAI's SDK for Node, and Vercel's `ai`."""
    before = await completed(pool)
    (tmp_path / "node_modules").symlink_to(npm.modules)
    (tmp_path / "hello.mjs").write_text(examples("use-with-openai-sdk", "js", pool)[number], encoding="utf-8")
    told = await run([npm.node, "hello.mjs"], tmp_path)

    assert len(told) > 100
    assert await completed(pool) - before == (2, 1)[number]


async def test_llm(pool: Cluster, tmp_path: Path) -> None:
    """`llm` with the entry of the page in its own file."""
    before = await completed(pool)
    (example,) = examples("use-with-llm", "sh", pool)
    env = {"PATH": f"{BIN}:{os.environ['PATH']}", "LLM_USER_PATH": str(tmp_path)}
    told = await run(["sh", "-ec", example], tmp_path, **env)

    assert len(told) > 100
    assert await completed(pool) - before == 1


async def test_codex(pool: Cluster, npm: Npm, tmp_path: Path) -> None:
    """Codex with the page's config, and shorter instructions than its own."""
    before = await completed(pool)
    (tmp_path / ".codex").mkdir()
    (tmp_path / "brief.md").write_text(BRIEF, encoding="utf-8")
    (config,) = examples("use-with-codex", "toml", pool)
    own = f'model_instructions_file = "{tmp_path / "brief.md"}"\n'
    (tmp_path / ".codex" / "config.toml").write_text(own + config, encoding="utf-8")
    (example,) = examples("use-with-codex", "sh", pool)
    env = {"PATH": f"{npm.modules / '.bin'}:{os.environ['PATH']}", "CODEX_HOME": ""}
    told = await run(["sh", "-ec", example], tmp_path, **env)

    assert json.loads(told.splitlines()[-1])["type"] == "turn.completed"
    assert await completed(pool) - before == 1


@contextlib.asynccontextmanager
async def opencode(pool: Cluster, npm: Npm, folder: Path, model: str) -> AsyncIterator[dict[str, Any]]:
    """What `run` takes for opencode as the page sets it up, with shorter instructions than its own and no tools.

    What it asks of other machines comes to a proxy that answers nothing; leaving the block asserts that nothing came.
    """
    found = npm.modules.parent / OPENCODE
    if not found.exists():
        pytest.skip("opencode: its package for this system is not in tests/clients/package.json")
    (folder / "bin").mkdir()
    (folder / "bin" / "opencode").symlink_to(found)
    (folder / "opencode.json").write_text(examples("use-with-opencode", "json", pool, model)[0], encoding="utf-8")
    asked = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        brief = {"agent": {"build": {"prompt": BRIEF}}, "tools": {"*": False}}
        _, offline = examples("use-with-opencode", "sh", pool, model)
        yield {
            "settings": offline,
            "env": {
                "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
                "OPENCODE_CONFIG_CONTENT": json.dumps(brief),
                **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), address),
                **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"),
            },
        }
    assert asked == []


async def test_opencode(pool: Cluster, npm: Npm, tmp_path: Path) -> None:
    """Opencode answers with the engine's text, takes two slots once for a new session, and asks no other machine."""
    before = await completed(pool)
    async with opencode(pool, npm, tmp_path, "short") as given:
        example, _ = examples("use-with-opencode", "sh", pool)
        told = await run(["sh", "-ec", given["settings"] + example], tmp_path, **given["env"])

    assert len(told) > 100
    assert await completed(pool) - before == 2


async def test_opencode_waits_in_line(pool: Cluster, npm: Npm, tmp_path: Path) -> None:
    """With its model's only slot taken opencode waits, and is answered when the slot is free."""
    async with opencode(pool, npm, tmp_path, "solo") as given, asyncio.TaskGroup() as group:
        command = given["settings"] + 'opencode run --title waits "say hi" </dev/null'
        async with held(pool):
            asking = group.create_task(run(["sh", "-ec", command], tmp_path, **given["env"]))
            await queued(pool, 1)
        told = await asking

    assert len(told) > 10
    await idle(pool)
