"""Kind `text`: an agent that reads its prompt from stdin and whose stdout is the answer."""

import codecs

from iop.adapters.cli.agent import (
    MAX_ANSWER,
    AgentFailedError,
    Answering,
    Deadlines,
    Limits,
    bad_end,
    cannot_run,
    command_line,
)
from iop.adapters.cli.process import AgentProcess
from iop.adapters.cli.trees import Tree
from iop.link.messages import CliTarget


async def answer(target: CliTarget, prompt: str, limits: Limits, tree: Tree, *, at_most: int = MAX_ANSWER) -> Answering:
    """Yield the answer as it comes, cut between characters only; ends when the agent has ended well.

    Bytes that are not UTF-8 become U+FFFD. Raises AgentFailedError. However it is left, the agent and all that it
    started are gone then; it must be closed (`contextlib.aclosing`).
    """
    deadlines = Deadlines(limits)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    size = 0
    try:
        async with AgentProcess(command_line(target), tree, prompt=prompt.encode()) as process:
            while True:
                async with deadlines.waiting():
                    data = await process.read()
                text = decoder.decode(data, final=not data)
                size += len(text)
                if size > at_most:
                    raise AgentFailedError(f"the agent's answer is longer than {at_most} characters")
                if text:
                    yield text
                if not data:
                    break
            async with deadlines.waiting():
                code = await process.wait()
            if code != 0:
                raise bad_end(code, process.last_error_line())
    except (OSError, ValueError) as error:
        raise cannot_run(target, error) from error
