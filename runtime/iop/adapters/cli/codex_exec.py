"""Kind `codex` by `codex exec --json`, for versions without an app-server: its messages come whole."""

from collections.abc import Iterator
from typing import Any

from iop.adapters.cli.agent import AgentFailedError, Answering, Deadlines, Limits, Said, cannot_run, command_line
from iop.adapters.cli.codex_turn import reason
from iop.adapters.cli.codex_words import Messages, Settings, ended_early, settings, usage_of
from iop.adapters.cli.jsonl import JsonLines, LineTooLongError
from iop.adapters.cli.process import AgentProcess
from iop.adapters.cli.trees import Tree
from iop.link.messages import CliTarget

_TOKENS = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_output_tokens")


def arguments(allowed: Settings) -> tuple[str, ...]:
    """Return the words after the operator's own command; `-` = the prompt is on stdin."""
    words = ["exec", "--json", "--skip-git-repo-check", "--ephemeral"]
    if allowed.sandbox is not None:
        words += ["--sandbox", allowed.sandbox]
    if allowed.approval is not None:
        words += ["-c", f'approval_policy="{allowed.approval}"']
    return (*words, "-")


async def answer(target: CliTarget, prompt: str, limits: Limits, tree: Tree) -> Answering:
    """Yield what Codex says, message by message, until its turn has completed well.

    Raises AgentFailedError. However it is left, Codex and all that it started are gone then; it must be closed
    (`contextlib.aclosing`).
    """
    deadlines = Deadlines(limits)
    events = ExecEvents()
    lines = JsonLines()
    command = command_line(target, *arguments(settings(target.command)))
    try:
        async with AgentProcess(command, tree, prompt=prompt.encode()) as process:
            while True:
                async with deadlines.waiting():
                    data = await process.read()
                for event in lines.feed(data) if data else lines.end():
                    for said in events.receive(event):
                        yield said
                if not data:
                    break
            async with deadlines.waiting():
                code = await process.wait()
            if code != 0 or not events.done:
                raise ended_early(code, process.error_lines())
    except (OSError, ValueError) as error:
        raise cannot_run(target, error) from error
    except LineTooLongError as error:
        raise AgentFailedError(str(error)) from None


class ExecEvents:
    """Reads the events of one `codex exec`; `done` is True after a turn that completed well.

    `error` events and items are warnings or attempts to reconnect: only `turn.failed` ends the turn.
    """

    def __init__(self) -> None:
        self._messages = Messages()
        self.done = False

    def receive(self, event: dict[str, Any]) -> Iterator[Said]:
        """Take one event. Raises AgentFailedError with the reason when the turn has failed."""
        match event.get("type"):
            case "item.completed":
                item = event.get("item")
                if isinstance(item, dict) and item.get("type") == "agent_message":
                    yield from self._messages.whole(str(item.get("id")), str(item.get("text", "")))
            case "turn.failed":
                raise AgentFailedError(reason(event.get("error")))
            case "turn.completed":
                if not self._messages.any:
                    raise AgentFailedError("the turn ended without a message")
                self.done = True
                usage = usage_of(event.get("usage"), _TOKENS)
                if usage is not None:
                    yield usage
