"""What the kinds of agents share: how a run is started, what it says, its time limits, and its failure."""

import asyncio
import math
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from iop.adapters.cli.process import CommandLine
from iop.link.messages import CliTarget
from iop.openai.answers import Usage

#: characters of one answer: beyond it something has gone wrong in the agent, and the node's memory is at stake
MAX_ANSWER = 64 * 1024 * 1024
#: characters of an agent's own words that are told in an error
MAX_REASON = 500


class AgentFailedError(Exception):
    """The agent could not be started or ended badly; the text is for the client."""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """The agent begins a message of its own; messages of one answer are set apart by an empty line."""


@dataclass(frozen=True, slots=True)
class SaidAgain:
    """The message under way was cut off, and the agent will say it again from its first word."""


#: what an agent says, in order: text as it comes, what it means for the messages, the tokens where it knows them
Said = str | NewMessage | SaidAgain | Usage
Answering = AsyncGenerator[Said, None]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: `silence` on stdout before and within the answer, `total` for the whole run; None = no limit."""

    silence: float | None = None
    total: float | None = None


class Deadlines:
    """The limits of one run under way, counted from now on the loop's clock; needs a running loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        now = asyncio.get_running_loop().time()
        self._end = math.inf if limits.total is None else now + limits.total

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Wait for the agent inside; a limit that is reached becomes AgentFailedError."""
        limits = self._limits
        silent_at = math.inf if limits.silence is None else asyncio.get_running_loop().time() + limits.silence
        at = min(silent_at, self._end)
        try:
            async with asyncio.timeout_at(None if at == math.inf else at):
                yield
        except TimeoutError:
            if silent_at <= self._end:
                raise AgentFailedError(f"the agent was silent for {limits.silence:g} s") from None
            raise AgentFailedError(f"the agent was not done after {limits.total:g} s") from None


def command_line(target: CliTarget, *further: str) -> CommandLine:
    """Return how a target's program is started: its own words, then `further`; its variables over the node's."""
    return CommandLine(argv=(*target.command, *further), env={**os.environ, **target.env}, cwd=target.cwd)


def cannot_run(target: CliTarget, error: OSError | ValueError) -> AgentFailedError:
    """Return the failure of a program that could not be started."""
    place = f" in {target.cwd}" if target.cwd else ""
    why = getattr(error, "strerror", None) or error
    return AgentFailedError(f"the agent cannot be run: {target.command[0]}{place}: {why}")


def bad_end(code: int, last_words: str) -> AgentFailedError:
    """Return the failure of a program that ended with `code` (negative: the signal that ended it)."""
    ended = f"exit status {code}" if code >= 0 else f"ended by signal {-code}"
    words = last_words[:MAX_REASON]
    return AgentFailedError(f"{words} ({ended})" if words else f"the agent failed: {ended}")
