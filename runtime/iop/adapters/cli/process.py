"""One run of a CLI program: its prompt in, its output out, and an end that leaves nothing of its tree behind."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, cast

from iop.adapters.cli.trees import Tree

#: bytes of output held unread before the program is made to wait
READ_BUFFER = 256 * 1024
#: bytes of stderr that are kept, for its last line
STDERR_TAIL = 8 * 1024
#: seconds that a program's tree has to end after SIGTERM, before it is killed
GRACE = 2.0
#: seconds to see a killed tree gone; the kernel needs milliseconds, except for a process stuck in a device
KILLED_WITHIN = 5.0
#: seconds that output may come after the program's own end, from something it started that holds its stdout
LINGER = 0.5
#: seconds between looks at a tree that is ending: the first and the longest
_POLL = 0.01
_POLL_AT_MOST = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A program as it is started: never by a shell, never with the prompt in `argv`. `env` is the whole environment."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None = None


class AgentProcess:
    """A running program, as a context: leaving it ends the whole tree and waits until it is gone.

    `prompt` is its whole stdin, followed by EOF; None = stdin stays open for `write`. Entering raises OSError or
    ValueError when the program cannot be started. A second cancellation while leaving skips the grace time.
    """

    def __init__(self, command: CommandLine, tree: Tree, *, prompt: bytes | None = None, grace: float = GRACE) -> None:
        self._command = command
        self._prompt = prompt
        self._tree = tree
        self._grace = grace

    async def __aenter__(self) -> Self:
        env = {**self._command.env, **self._tree.marks()}
        self._transport, self._pipes = await asyncio.get_running_loop().subprocess_exec(
            _Pipes, *self._command.argv, cwd=self._command.cwd, env=env, **self._tree.start_options()
        )
        self.pid = self._transport.get_pid()
        self._tree.started(self.pid)
        if self._prompt is not None:
            self.write(self._prompt)
            self.close_input()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gone = False
        try:
            gone = await self._is_gone()
            if not gone:
                await asyncio.to_thread(self._tree.end, force=False)
                gone = await self._gone(self._grace)
        finally:
            self._pipes.drop_input()
            try:
                if not gone and not await self._gone(KILLED_WITHIN, force=True):
                    _log.error("processes of agent %d outlive SIGKILL", self.pid)
            finally:
                self._transport.close()
                self._tree.close()

    def write(self, data: bytes) -> None:
        """Send to the program's stdin: written by the loop while stdout is read, so that neither side blocks the other.

        What a program that has ended or closed its stdin does not read is lost without an error.
        """
        if self._pipes.stdin_open:
            self._stdin().write(data)

    def close_input(self) -> None:
        """End the program's stdin, after what was written."""
        if self._pipes.stdin_open:
            self._stdin().close()

    async def read(self) -> bytes:
        """Return what the program wrote to stdout, waiting for at least one byte; empty at the end."""
        return await self._pipes.read()

    async def wait(self) -> int:
        """Wait for the program's own end; return its exit code (negative: the signal that ended it).

        What it wrote to stderr has then been read.
        """
        await self._pipes.exited.wait()
        await self._pipes.errors_ended.wait()
        return cast("int", self._transport.get_returncode())

    def error_lines(self) -> list[str]:
        """Return the last lines on stderr, without blank ones."""
        lines = bytes(self._pipes.stderr).decode("utf-8", "replace").splitlines()
        return [line.strip() for line in lines if line.strip()]

    def last_error_line(self) -> str:
        """Return the last line on stderr that is not blank, or an empty string."""
        lines = self.error_lines()
        return lines[-1] if lines else ""

    def _stdin(self) -> asyncio.WriteTransport:
        return cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))

    async def _gone(self, within: float, *, force: bool = False) -> bool:
        """Wait until the program is reaped and its tree is empty; False when it is not so in time.

        `force` kills again at each look: a member that was being started at the first kill is caught by a later one.
        """
        clock = asyncio.get_running_loop()
        until = clock.time() + within
        pause = _POLL
        while not await self._is_gone():  # nothing tells of the end of a process that is not our child, hence the poll
            if clock.time() >= until:
                return False
            if force:
                await asyncio.to_thread(self._tree.end, force=True)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _POLL_AT_MOST)
        return True

    async def _is_gone(self) -> bool:
        # in a thread: a look at the processes of a busy host takes long enough to hold up every stream of this node
        return self._pipes.exited.is_set() and not await asyncio.to_thread(self._tree.alive)


class _Pipes(asyncio.SubprocessProtocol):
    """Holds what came on stdout until it is read, and the end of stderr."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.errors_ended = asyncio.Event()
        self.stderr = bytearray()
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._ended = False
        self.stdin_open = True
        self._news = asyncio.Event()
        self._stdout: asyncio.ReadTransport | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._stdout = cast("asyncio.ReadTransport", self._transport.get_pipe_transport(1))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.stderr += data
            del self.stderr[:-STDERR_TAIL]
            return
        self._chunks.append(data)
        self._held += len(data)
        self._news.set()
        if self._held >= READ_BUFFER and self._stdout is not None and not self._paused:
            self._paused = True
            self._stdout.pause_reading()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        if fd == 1:
            self._end()
        elif fd == 2:
            self.errors_ended.set()
        else:
            self.stdin_open = False

    def process_exited(self) -> None:
        self.exited.set()
        asyncio.get_running_loop().call_later(LINGER, self._linger)

    def _linger(self) -> None:
        """End the output although something still holds it open, once all that came has been read."""
        self.errors_ended.set()
        if self._chunks or self._paused:
            asyncio.get_running_loop().call_later(LINGER, self._linger)
        else:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._news.set()

    def drop_input(self) -> None:
        """Forget what the program has not read of its prompt: it will not, and a survivor might never."""
        if self.stdin_open:
            cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0)).abort()

    async def read(self) -> bytes:
        while not self._chunks:
            if self._ended:
                return b""
            self._news.clear()
            await self._news.wait()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._held = 0
        if self._paused and self._stdout is not None and not self._ended:
            self._paused = False
            self._stdout.resume_reading()
        return data
