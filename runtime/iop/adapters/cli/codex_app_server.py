"""Kind `codex` by `codex app-server`: text as the model says it, and a turn that can be interrupted."""

import asyncio
import contextlib

from iop.adapters.cli.agent import AgentFailedError, Answering, Deadlines, Limits, cannot_run, command_line
from iop.adapters.cli.codex_turn import Turn
from iop.adapters.cli.codex_words import ended_early, settings
from iop.adapters.cli.jsonl import JsonLines, LineTooLongError
from iop.adapters.cli.process import AgentProcess
from iop.adapters.cli.trees import Tree
from iop.link.messages import CliTarget

#: seconds that Codex has to stop its turn cleanly when its client has left, before its processes are told to end
INTERRUPTED_WITHIN = 1.0


async def answer(target: CliTarget, prompt: str, limits: Limits, tree: Tree) -> Answering:
    """Yield what Codex says until its turn has completed well.

    Raises AgentFailedError. However it is left, Codex and all that it started are gone then; it must be closed
    (`contextlib.aclosing`). Leaving early interrupts the turn first.
    """
    deadlines = Deadlines(limits)
    turn = Turn(prompt, target.cwd, settings(target.command))
    lines = JsonLines()
    try:
        async with AgentProcess(command_line(target, "app-server"), tree) as process:
            try:
                while not turn.done:
                    process.write(turn.take())
                    async with deadlines.waiting():
                        data = await process.read()
                    for message in lines.feed(data) if data else lines.end():
                        for said in turn.receive(message):
                            yield said
                    if not data and not turn.done:
                        async with deadlines.waiting():
                            code = await process.wait()
                        raise ended_early(code, process.error_lines())
            except (asyncio.CancelledError, GeneratorExit):
                await _interrupt(process, turn)
                raise
            process.close_input()  # at the end of its stdin Codex ends by itself
    except (OSError, ValueError) as error:
        raise cannot_run(target, error) from error
    except LineTooLongError as error:
        raise AgentFailedError(str(error)) from None


async def _interrupt(process: AgentProcess, turn: Turn) -> None:
    if not turn.interrupt():
        return
    process.write(turn.take())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(INTERRUPTED_WITHIN):
            while b'"turn/completed"' not in (data := await process.read()) and data:
                pass
