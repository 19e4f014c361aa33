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
_POLL = 0.02

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A program as it is started: never by a shell, never with the prompt in `argv`. `env` is the whole environment."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None = None


class AgentProcess:
    """A running program, as a context: leaving it ends the whole tree and waits until it is gone.

    Entering raises OSError or ValueError when the program cannot be started. A second cancellation while leaving
    skips the grace time.
    """

    def __init__(self, command: CommandLine, prompt: bytes, tree: Tree, *, grace: float = GRACE) -> None:
        self._command = command
        self._prompt = prompt
        self._tree = tree
        self._grace = grace

    async def __aenter__(self) -> Self:
        options = self._tree.start_options()
        self._transport, self._pipes = await asyncio.get_running_loop().subprocess_exec(
            _Pipes, *self._command.argv, cwd=self._command.cwd, env=dict(self._command.env), **options
        )
        self.pid = self._transport.get_pid()
        stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        # written by the loop while stdout is read, so that neither side can block the other for ever
        stdin.write(self._prompt)
        stdin.close()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._tree.end(self.pid, force=False)
            await self._gone(self._grace)
        finally:
            self._tree.end(self.pid, force=True)
            self._pipes.drop_input()
            try:
                if not await self._gone(KILLED_WITHIN):
                    _log.error("processes of agent %d outlive SIGKILL", self.pid)
            finally:
                self._transport.close()

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

    def last_error_line(self) -> str:
        """Return the last line on stderr that is not blank, or an empty string."""
        lines = bytes(self._pipes.stderr).decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    async def _gone(self, within: float) -> bool:
        """Wait until the program is reaped and its group is empty; False when it is not so in time."""
        clock = asyncio.get_running_loop()
        until = clock.time() + within
        # nothing tells of the end of a process that is not our child, hence the poll
        while not self._pipes.exited.is_set() or self._tree.alive(self.pid):
            if clock.time() >= until:
                return False
            await asyncio.sleep(_POLL)
        return True


class _Pipes(asyncio.SubprocessProtocol):
    """Holds what came on stdout until it is read, and the end of stderr."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.errors_ended = asyncio.Event()
        self.stderr = bytearray()
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._ended = False
        self._stdin_open = True
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
            self._stdin_open = False

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
        if self._stdin_open:
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
