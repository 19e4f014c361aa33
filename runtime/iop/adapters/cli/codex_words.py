"""What is the same for both ways to run Codex: safe settings, what it says on stderr, and the text of its messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iop.adapters.cli.agent import MAX_ANSWER, MAX_REASON, AgentFailedError, NewMessage, Said, SaidAgain, bad_end
from iop.openai.answers import Usage

#: lines on stderr that say nothing about a failure
CHATTER = ("WARNING: proceeding", "Reading additional input", "Reading prompt from stdin")


@dataclass(frozen=True, slots=True)
class Settings:
    """What Codex is told to allow itself; None = the operator's own command says so."""

    sandbox: str | None
    approval: str | None


def settings(command: Sequence[str]) -> Settings:
    """Return the safe settings - it may read and not write, and asks nobody - but for what `command` sets itself."""
    own = [word for word in command[1:] if word.startswith("-") or "=" in word]
    bypass = any("bypass-approvals-and-sandbox" in word for word in own)
    sandbox = bypass or any(word in {"-s", "-p", "--profile"} or "sandbox" in word for word in own)
    approval = bypass or any(word in {"-a", "-p", "--profile"} or "approv" in word for word in own)
    return Settings(sandbox=None if sandbox else "read-only", approval=None if approval else "never")


def ended_early(code: int, error_lines: Sequence[str]) -> AgentFailedError:
    """Return the failure of a Codex that ended before its turn did, with what it said on stderr."""
    told = [line for line in error_lines if not line.startswith(CHATTER)]
    first = next((place for place, line in enumerate(told) if line.startswith("Error")), len(told) - 1)
    words = " ".join(told[max(first, 0) :])[:MAX_REASON]
    if code == 0:
        return AgentFailedError(words or "the agent ended before its turn was completed")
    return bad_end(code, words)


def usage_of(known: object, names: tuple[str, str, str, str]) -> Usage | None:
    """Return the tokens under the four `names` (input, output, cached, reasoning); None when there is nothing."""
    if not isinstance(known, dict):
        return None
    counts = [value if isinstance(value := known.get(name), int) else 0 for name in names]
    return Usage(counts[0], counts[1], cached_tokens=counts[2], reasoning_tokens=counts[3])


class Messages:
    """Makes what is said of Codex's messages, each known by its item id, in pieces or whole."""

    def __init__(self, at_most: int = MAX_ANSWER) -> None:
        self._at_most = at_most
        self._size = 0
        self._item: str | None = None
        self._text = ""
        self.any = False

    def delta(self, item: str, text: str) -> Iterator[Said]:
        """More text of a message."""
        if item != self._item:
            self._item, self._text = item, ""
            yield NewMessage()
        self._size += len(text)
        if self._size > self._at_most:
            raise AgentFailedError(f"the agent's answer is longer than {self._at_most} characters")
        if text:
            self.any = True
            self._text += text
            yield text

    def whole(self, item: str, text: str) -> Iterator[Said]:
        """A message is complete: what no delta told is told now."""
        told = self._text if item == self._item else ""
        yield from self.delta(item, text.removeprefix(told) if text.startswith(told) else "")
        self._item, self._text = None, ""

    def cut(self) -> Iterator[Said]:
        """The connection to the model broke; Codex asks again."""
        if self._text:
            self._item, self._text = None, ""
            yield SaidAgain()
