"""An engine's answer to one request: its head, and its body as it comes."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

#: seconds that an engine has to notice that it was left; one that does not is cut off
LEAVE_WITHIN = 0.5
#: bytes held unread per answer from which the engine is made to wait
READ_BUFFER = 64 * 1024

#: takes bytes of a body, always all of them; False when nothing more can be taken for now. An error in it is reported
#: to the event loop, which closes the connection
Into = Callable[[bytes], bool]


class EngineError(Exception):
    """The exchange broke. `failure`: `unreachable` (no connection), `reset` (connection, but no status line) or
    `broken` (no HTTP, or an answer cut in the middle). The text holds no secret.
    """

    def __init__(self, failure: str, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail


class Carrier(Protocol):
    """The connection that an answer comes by, for as long as it comes."""

    def hold(self) -> None:
        """Let the engine wait: its bytes are not taken."""

    def resume(self) -> None:
        """Take its bytes again."""

    def half_close(self) -> bool:
        """Tell the engine that nobody sends any more; False where that cannot be told."""

    def abort(self) -> None:
        """End the connection at once, whatever is still on its way."""


class EngineAnswer:
    """Status line and headers as they came, and the entity bytes (transfer coding removed, nothing decoded)."""

    __slots__ = (
        "_behind",
        "_carrier",
        "_fault",
        "_heard",
        "_held",
        "_held_size",
        "_holds",
        "_into",
        "_loop",
        "_timer",
        "_waiter",
        "headers",
        "status",
    )

    def __init__(self, carrier: Carrier) -> None:
        self.status = 0
        self.headers: tuple[tuple[str, str], ...] = ()
        self._loop = asyncio.get_running_loop()
        #: None once the exchange is over
        self._carrier: Carrier | None = carrier
        self._held: list[bytes] = []
        self._held_size = 0
        self._holds = False
        self._fault: EngineError | None = None
        self._into: Into | None = None
        self._behind = False
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0

    def header(self, name: str) -> str:
        """Return the first value of a header, or an empty string. `name` in lower case."""
        for key, value in self.headers:
            if key.lower() == name:
                return value
        return ""

    @property
    def codings(self) -> str:
        """What the entity bytes are coded with, in the order in which it was applied; a transfer coding that is not
        taken off here (any but `chunked`) came last.
        """
        named = [(name.lower(), value) for name, value in self.headers]
        listed = [value for kind in ("content-encoding", "transfer-encoding") for name, value in named if name == kind]
        return ",".join(part for part in ",".join(listed).split(",") if part.strip().lower() != "chunked")

    @property
    def ends_with_connection(self) -> bool:
        """True when only the end of the connection ends the body, so that a cut cannot be seen in the framing."""
        return "chunked" not in self.header("transfer-encoding").lower() and not self.header("content-length")

    async def pour(self, into: Into, silence: float | None = None) -> bool:
        """Hand the body to `into`: now what is there, then each piece in the very turn in which it comes.

        Returns True when `into` says that it can take no more for now (what comes after that is kept here, and the
        engine made to wait before it is much), False at the end. Raises TimeoutError when the engine sends nothing for
        `silence` seconds, and EngineError("broken") when the answer is cut.
        """
        if self._held and not into(self._take()):
            return True
        if self._carrier is not None and self._fault is None:
            self._into, self._behind = into, False
            try:
                await self._wait(silence)
                if self._behind:
                    return True
            finally:
                self._into = None
        if self._fault is not None:
            raise self._fault
        return False

    def close(self) -> None:
        """End the exchange: a connection on which it is not over is closed at once. Never raises."""
        carrier, self._carrier = self._carrier, None
        if carrier is not None:
            carrier.abort()

    async def leave(self, within: float = LEAVE_WITHIN) -> None:
        """End the exchange; one that is not over is first given back to the engine.

        It is told that nobody sends any more, and has `within` seconds to end its side: only then is it known to have
        seen that it was left, and whoever comes next does not find it busy with this one.
        """
        try:
            if self._carrier is not None and self._fault is None and self._carrier.half_close():
                with contextlib.suppress(EngineError, TimeoutError):
                    async with asyncio.timeout(within):
                        while await self.pour(_drop):
                            pass
        finally:
            self.close()

    # the connection

    async def begun(self, within: float | None) -> None:
        """Wait for the head. Raises EngineError, and TimeoutError after `within` seconds."""
        if not self.status and self._fault is None:
            await self._wait(within)
        if not self.status and self._fault is not None:
            raise self._fault

    def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The head came."""
        self.status = status
        self.headers = tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])
        self._wake()

    def feed(self, data: bytes) -> None:
        """Entity bytes came."""
        self._heard = self._loop.time()
        if self._into is not None:
            if not self._into(data):
                self._into, self._behind = None, True
                self._wake()
            return
        self._held.append(data)
        self._held_size += len(data)
        if self._held_size > READ_BUFFER and not self._holds and self._carrier is not None:
            self._holds = True
            self._carrier.hold()

    def end(self, fault: EngineError | None = None) -> None:
        """The exchange is over: well, or by `fault`."""
        self._carrier = None
        self._fault = self._fault or fault
        self._wake()

    def _take(self) -> bytes:
        held = self._held
        data = held[0] if len(held) == 1 else b"".join(held)
        held.clear()
        self._held_size = 0
        if self._holds:
            self._holds = False
            if self._carrier is not None:
                self._carrier.resume()
        return data

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self, silence: float | None) -> None:
        self._waiter = self._loop.create_future()
        if silence is not None:
            self._heard = self._loop.time()
            self._timer = self._loop.call_later(silence, self._look, silence)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _look(self, silence: float) -> None:
        """Has it been silent for so long? Looked at anew only when the time since the last look is over."""
        left = self._heard + silence - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look, silence)
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(TimeoutError())


def _drop(data: bytes) -> bool:  # noqa: ARG001 - an `Into`
    return True
