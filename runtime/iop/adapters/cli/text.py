"""Kind `text`: an agent that reads its prompt from stdin and whose stdout is the answer."""

import asyncio
import codecs
import math
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from iop.adapters.cli.process import AgentProcess, CommandLine
from iop.adapters.cli.trees import Tree
from iop.link.messages import CliTarget

#: characters of one answer: beyond it something has gone wrong in the agent, and the node's memory is at stake
MAX_ANSWER = 64 * 1024 * 1024
#: characters of an agent's own words that are told in an error
MAX_REASON = 500


class AgentFailedError(Exception):
    """The agent could not be started or ended badly; the text is for the client."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: `silence` on stdout before and within the answer, `total` for the whole run; None = no limit."""

    silence: float | None = None
    total: float | None = None


async def answer(target: CliTarget, prompt: str, limits: Limits, tree: Tree) -> AsyncGenerator[str, None]:
    """Yield the answer as it comes, cut between characters only; ends when the agent has ended well.

    Bytes that are not UTF-8 become U+FFFD. Raises AgentFailedError. However it is left, the agent and all that it
    started are gone then; it must be closed (`contextlib.aclosing`).
    """
    command = CommandLine(argv=target.command, env={**os.environ, **target.env}, cwd=target.cwd)
    end = math.inf if limits.total is None else asyncio.get_running_loop().time() + limits.total
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    size = 0
    try:
        async with AgentProcess(command, prompt.encode(), tree) as process:
            while True:
                async with _waiting(limits, end):
                    data = await process.read()
                text = decoder.decode(data, final=not data)
                size += len(text)
                if size > MAX_ANSWER:
                    raise AgentFailedError(f"the agent's answer is longer than {MAX_ANSWER} characters")
                if text:
                    yield text
                if not data:
                    break
            async with _waiting(limits, end):
                code = await process.wait()
            if code != 0:
                raise AgentFailedError(_reason(code, process.last_error_line()))
    except (OSError, ValueError) as error:
        raise AgentFailedError(f"the agent cannot be run: {_why(target, error)}") from error


@asynccontextmanager
async def _waiting(limits: Limits, end: float) -> AsyncIterator[None]:
    """Wait for the agent inside; a limit that is reached becomes AgentFailedError. `end` is on the loop's clock."""
    silent_at = math.inf if limits.silence is None else asyncio.get_running_loop().time() + limits.silence
    at = min(silent_at, end)
    try:
        async with asyncio.timeout_at(None if at == math.inf else at):
            yield
    except TimeoutError:
        if silent_at <= end:
            raise AgentFailedError(f"the agent was silent for {limits.silence:g} s") from None
        raise AgentFailedError(f"the agent was not done after {limits.total:g} s") from None


def _reason(code: int, last_line: str) -> str:
    ended = f"exit status {code}" if code > 0 else f"ended by signal {-code}"
    return f"{last_line[:MAX_REASON]} ({ended})" if last_line else f"the agent failed: {ended}"


def _why(target: CliTarget, error: OSError | ValueError) -> str:
    place = f" in {target.cwd}" if target.cwd else ""
    return f"{target.command[0]}{place}: {getattr(error, 'strerror', None) or error}"
