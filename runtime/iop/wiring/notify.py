"""What a process tells its service manager (systemd's notify protocol): ready, alive, reloading, stopping.

One datagram for each word, from the event loop itself: a loop that hangs sends no sign of life, and the manager ends
the process. Without a manager that listens every call does nothing, and trouble with its socket is never an error.
"""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Iterator, MutableMapping

_log = logging.getLogger(__name__)

#: seconds between two words of a stop that takes its time, and the seconds that each asks for
EXTEND_EVERY = 5.0
EXTEND_BY = 20.0

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Notifier:
    """Speaks to the socket `address` (a path, or `@name` for an abstract one; None = nobody listens).

    `watchdog` is the manager's patience in seconds; a sign of life is sent at half of it, from `ready` on.
    """

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        self._address = address
        self._watchdog = watchdog
        self._socket: socket.socket | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._status = ""

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> "Notifier":
        """Read what the manager gave, and remove it, so that no agent or engine speaks in our name."""
        address, patience, pid = (environ.pop(name, "") for name in _VARIABLES)
        watchdog = int(patience) / 1e6 if patience.isascii() and patience.isdigit() and int(patience) else None
        if pid and pid != str(os.getpid()):
            watchdog = None
        usable = address.startswith(("/", "@")) and hasattr(socket, "AF_UNIX")
        return cls(address if usable else None, watchdog)

    def ready(self, status: str) -> None:
        """The process serves; `status` is one line for people."""
        self._status = status
        self._send("READY=1", f"STATUS={status}")
        self._repeat("WATCHDOG=1", every=self._watchdog / 2 if self._watchdog else None)

    @contextlib.contextmanager
    def reloading(self) -> Iterator[None]:
        """The config is read again inside."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            yield
        finally:
            self._send("READY=1", f"STATUS={self._status}")

    def stopping(self, status: str) -> None:
        """The process ends as soon as its work has; until then it asks for time, again and again."""
        self._send("STOPPING=1", f"STATUS={status}")
        self._repeat(f"EXTEND_TIMEOUT_USEC={EXTEND_BY * 1e6:.0f}", every=EXTEND_EVERY)

    def close(self) -> None:
        """Say no more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._address = None

    def _repeat(self, word: str, *, every: float | None) -> None:
        if every is not None:
            self._send(word)
        if every is not None and self._address is not None:
            self._timers[word] = asyncio.get_running_loop().call_later(every, lambda: self._repeat(word, every=every))

    def _send(self, *words: str) -> None:
        if self._address is None:
            return
        where = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.settimeout(0)
            self._socket.sendto("\n".join(words).encode(), where)
        except BlockingIOError:
            _log.debug("the service manager does not read: %s was not told", words[0])
        except OSError as error:
            _log.warning("the service manager cannot be told %s at %s: %s", words[0], self._address, error)
            self.close()
