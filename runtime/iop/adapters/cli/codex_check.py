"""Which version of Codex is there, whether it can stream and is logged in: asked of the program itself."""

import asyncio
from dataclasses import dataclass
from typing import Any

from iop.adapters.cli.agent import command_line
from iop.adapters.cli.codex_turn import CLIENT, line
from iop.adapters.cli.codex_words import CHATTER
from iop.adapters.cli.jsonl import JsonLines, LineTooLongError
from iop.adapters.cli.process import AgentProcess
from iop.adapters.cli.trees import tree_for
from iop.link.messages import CliTarget

#: seconds that one question may take; Codex needs 0.3 s, a cold start from a slow disk some more
ANSWERED_WITHIN = 20.0
_INITIALIZE, _ACCOUNT = 1, 2


@dataclass(frozen=True, slots=True)
class CodexFacts:
    """What is known of a Codex. `logged_in` is True too where its model provider needs no login of OpenAI."""

    version: str | None
    app_server: bool
    logged_in: bool
    account: str


async def examine(target: CliTarget, platform: str) -> CodexFacts:
    """Ask a Codex that can be started. Raises OSError or ValueError when it cannot, TimeoutError when it is silent.

    One process of its app-server tells whether there is one and who is logged in; no model is asked. A version
    without it is asked by `codex login status`.
    """
    async with asyncio.timeout(ANSWERED_WITHIN):
        code, said = await _said(target, platform, "--version")
        version = said if code == 0 and said else None
    async with asyncio.timeout(ANSWERED_WITHIN):
        app_server, account = await _ask_app_server(target, platform)
    if account is not None:
        return _by_account(version, account)
    async with asyncio.timeout(ANSWERED_WITHIN):
        code, said = await _said(target, platform, "login", "status")
    return CodexFacts(version, app_server, logged_in=code == 0, account=said or f"exit status {code}")


def _by_account(version: str | None, answer: dict[str, Any]) -> CodexFacts:
    account = answer.get("account")
    if isinstance(account, dict):
        words = f"logged in ({account.get('type', 'unknown')} account)"
        return CodexFacts(version, app_server=True, logged_in=True, account=words)
    if answer.get("requiresOpenaiAuth") is False:
        words = "its model provider needs no login of OpenAI"
        return CodexFacts(version, app_server=True, logged_in=True, account=words)
    return CodexFacts(version, app_server=True, logged_in=False, account="Not logged in")


async def _said(target: CliTarget, platform: str, *words: str) -> tuple[int, str]:
    """Run the program with these words; return its exit code and the last line it printed that is no chatter."""
    async with AgentProcess(command_line(target, *words), tree_for(platform), prompt=b"") as process:
        parts = []
        while data := await process.read():
            parts.append(data)
        code = await process.wait()
        lines = [*process.error_lines(), *b"".join(parts).decode("utf-8", "replace").split("\n")]
    told = [line.strip() for line in lines if line.strip() and not line.startswith(CHATTER)]
    return code, told[-1] if told else ""


async def _ask_app_server(target: CliTarget, platform: str) -> tuple[bool, dict[str, Any] | None]:
    """Return whether there is an app-server, and its answer to `account/read` where it knows that."""
    lines = JsonLines()
    initialized = False
    async with AgentProcess(command_line(target, "app-server"), tree_for(platform)) as process:
        process.write(line({"id": _INITIALIZE, "method": "initialize", "params": {"clientInfo": CLIENT}}))
        while data := await process.read():
            try:
                messages = list(lines.feed(data))
            except LineTooLongError:
                break
            for message in messages:
                result = message.get("result")
                if message.get("id") == _INITIALIZE and isinstance(result, dict):
                    initialized = True
                    process.write(line({"method": "initialized"}))
                    process.write(line({"id": _ACCOUNT, "method": "account/read", "params": {}}))
                elif message.get("id") in {_INITIALIZE, _ACCOUNT}:
                    return initialized, result if isinstance(result, dict) else None
    return initialized, None
