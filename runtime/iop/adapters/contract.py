"""What an adapter is: one way to run work inside a node, behind three methods.

The runner (node) owns policy: gate, on_disconnect, cancel. An adapter does one run at a time per call, passes on what
comes, and ends its work when its task is cancelled - when `run` returns or raises, the work has really stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import msgspec

from iop.domain.effects import Outcome
from iop.link.messages import TargetInfo

Operation = Literal["chat.completions", "responses"]
Headers = tuple[tuple[str, str], ...]

#: failure kinds of a run that ended without an HTTP status from the engine: it may go back to the line
RETURNABLE = frozenset({"unreachable", "reset", "busy", "stopping"})


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work. `body` is the whole JSON body as the engine shall get it; `timeout` (seconds) bounds the
    wait for the engine's status line, `idle_timeout` the silence within its answer.
    """

    request_id: str
    operation: Operation
    stream: bool
    body: bytes
    headers: Headers = ()
    target: str | None = None
    model: str | None = None
    timeout: float | None = None
    idle_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How the work ended. `failure` as in `iop.link.messages.End`; `detail` is for people and holds no secret."""

    outcome: Outcome
    failure: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Whether the engine answers; `reason` says what was wrong.

    `silent` is True when nothing at all came in time: not held against an engine that has work in flight.
    """

    up: bool
    reason: str | None = None
    silent: bool = False


class AnswerSink(Protocol):
    """Where an adapter puts the answer. Each call may wait for the reader (flow control); order is kept."""

    async def head(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Pass the status line and allowed headers on. Called at most once, before any body."""

    def offer(self, data: bytes) -> memoryview | None:
        """Pass on what can go at once, without waiting; returns the rest, which must go by `body`, None if all went."""

    async def body(self, data: bytes) -> None:
        """Pass on entity bytes."""


class Adapter(Protocol):
    """One adapter instance of a node. `name` is the instance's name (`cli` for the CLI adapter)."""

    name: str
    type: Literal["cli", "openai_compat"]
    max_concurrency: int

    async def run(self, request: RunRequest, sink: AnswerSink) -> RunEnd:
        """Do the work to its end. Expected failures are a RunEnd, never an exception.

        Cancelling the task stops the work at once; CancelledError leaves only after it has really stopped.
        """

    async def probe(self) -> ProbeResult:
        """Ask whether the engine answers; takes no slot, names no model, posts nothing. Bounded to 5 s."""

    async def close(self) -> None:
        """Free connections and children."""


@runtime_checkable
class HasTargets(Protocol):
    """An adapter that runs one of several programs, each of which may be ready or not."""

    def targets(self) -> tuple[TargetInfo, ...]:
        """Return what is known of each."""

    async def look(self) -> None:
        """Look again at those that are not known to be ready. Bounded by what the programs need to answer."""
