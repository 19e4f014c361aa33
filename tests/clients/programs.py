"""The clients that are programs: a JavaScript driver around an SDK, and Codex; each in a process group of its own."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.lifeline import ends_with_us

DRIVERS = Path(__file__).resolve().parent / "drivers"
DEADLINE = 200.0  # seconds: generous, since the machine may be loaded


@dataclass(frozen=True)
class Npm:
    """node, and the folder that npm has filled."""

    node: str
    modules: Path

    @contextlib.asynccontextmanager
    async def start(self, driver: str, case: str, base_url: str, **settings: Any) -> AsyncIterator["Program"]:
        """Run one case of a driver; `settings` go to the driver as JSON."""
        command = [self.node, str(DRIVERS / driver), case, base_url, json.dumps(settings)]
        async with program(command, {"NODE_PATH": str(self.modules)}) as made:
            yield made

    async def run(self, driver: str, case: str, base_url: str, **settings: Any) -> Any:
        """Run one case of a driver to its end; its last line: `{"ok": …}` or `{"error": …}`."""
        async with self.start(driver, case, base_url, **settings) as made:
            return (await made.lines())[-1]


@dataclass
class Program:
    """A running client whose stdout is JSON lines."""

    child: asyncio.subprocess.Process
    log: bytes = b""

    async def line(self) -> Any:
        """The next line."""
        assert self.child.stdout is not None
        line = await asyncio.wait_for(self.child.stdout.readline(), DEADLINE)
        assert line, await self._stderr()
        return json.loads(line)

    async def lines(self) -> list[Any]:
        """All lines that are left, once the program has ended."""
        assert self.child.stdout is not None
        raw, self.log = await asyncio.wait_for(self.child.communicate(), DEADLINE)
        assert raw, self.log.decode()
        return [json.loads(line) for line in raw.splitlines()]

    async def text(self) -> str:
        """All of its stdout, once the program has ended well."""
        raw, self.log = await asyncio.wait_for(self.child.communicate(), DEADLINE)
        assert self.child.returncode == 0, self.log.decode()
        return raw.decode()

    async def _stderr(self) -> str:
        assert self.child.stderr is not None
        return (await self.child.stderr.read()).decode()


@contextlib.asynccontextmanager
async def program(command: Sequence[str], env: dict[str, str], cwd: Path | None = None) -> AsyncIterator[Program]:
    """Start a program with an empty stdin; on the way out its whole group is killed."""
    proxies = {name: "" for name in os.environ if name.lower().endswith("_proxy")}
    child = await asyncio.create_subprocess_exec(
        *ends_with_us(command), cwd=cwd, env={**os.environ, **proxies, **env}, start_new_session=True, limit=2**22,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Program(child)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()


@dataclass(frozen=True)
class Codex:
    """`codex exec` of the npm package, with a home and a working folder of its own."""

    executable: Path
    folder: Path

    def configure(self, base_url: str, model: str, *, instructions: str = "", **provider: Any) -> None:
        """Write its config.toml, as the how-to page shows it; `provider` are further keys of the provider, and
        `instructions` stand in for Codex's own, which are most of its prompt.
        """
        more = "".join(f"{name} = {json.dumps(value)}\n" for name, value in provider.items())
        (self.folder / "home").mkdir(exist_ok=True)
        (self.folder / "work").mkdir(exist_ok=True)
        own = self.folder / "home" / "instructions.md"
        own.write_text(instructions, encoding="utf-8")
        said = f'model_instructions_file = "{own}"\n' if instructions else ""
        (self.folder / "home" / "config.toml").write_text(
            f'model = "{model}"\nmodel_provider = "iop"\n{said}\n[model_providers.iop]\nname = "iop"\n'
            f'base_url = "{base_url}"\nenv_key = "IOP_API_KEY"\nwire_api = "responses"\n{more}',
            encoding="utf-8",
        )

    @contextlib.asynccontextmanager
    async def start(self, prompt: str, *options: str) -> AsyncIterator[Program]:
        """Run `codex exec --json`."""
        fixed = ("--json", "--skip-git-repo-check", "--ephemeral")
        command = [str(self.executable), "exec", *fixed, *options, prompt]
        env = {"CODEX_HOME": str(self.folder / "home"), "HOME": str(self.folder / "home"), "IOP_API_KEY": "none"}
        async with program(command, env, self.folder / "work") as made:
            yield made

    async def run(self, prompt: str, *options: str) -> tuple[int | None, list[Any]]:
        """Run it to its end: exit code and events."""
        async with self.start(prompt, *options) as made:
            events = await made.lines()
            return made.child.returncode, events


def texts(events: list[Any], kind: str = "agent_message") -> list[str]:
    """The texts of Codex's finished items of a kind."""
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item.get("text", item.get("message", "")) for item in items if item["type"] == kind]
