"""A small parent that holds listening sockets while the program behind them is replaced.

    python -m iop_release.holder --state FILE --listen openai=127.0.0.1:18083 … -- LAUNCHER [ARGUMENT …]

It binds, starts the launcher as its worker with the sockets passed by systemd's protocol (`LISTEN_FDS` and the like),
and never reads from them: what connects while no worker accepts waits in the kernel. For systems without socket units.
Standard library only and a single file, so that a copy of it survives the release that brought it.

SIGHUP ends the worker and starts the launcher as it then is. SIGTERM ends the worker and this process, a second one is
passed on. A worker that ends by itself is started again, after a pause that grows; one that has said that it lives
(`WATCHDOG=1`) and then is silent for `--watchdog` seconds is killed first. It also gets a pipe named `lifeline`, whose
end of file tells that this process is gone. Exit code: the worker's; 1 when an address cannot be had, 2 for usage.

FILE holds JSON while this process lives: `holder`, `worker` (process ids; null between two workers), `number` (of the
worker, from 1), `ready`, `status` (what it says of itself), `release` (of its ready line), `ends` (workers that ended
by themselves), `last_end` (how the last one did), `listeners` (name: address).
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import json
import math
import os
import re
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BACKLOG = 4096
BIND_WITHIN = 60.0  # seconds for the worker of a holder that was killed to let the addresses go
FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0  # seconds before a worker that ended by itself is started again
STABLE_AFTER = 10.0  # seconds of life after which its end is no sign of a broken start
HURRY_WITHIN = 10.0  # seconds for the end after a second SIGTERM, before SIGKILL
_SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class CannotListen(Exception):
    """An address cannot be had."""


def main(arguments: list[str] | None = None) -> int:
    """Hold until SIGTERM; return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    cut = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(prog="iop_release.holder", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--state", type=Path, required=True, metavar="FILE", help="where the state is written")
    parser.add_argument("--listen", action="append", default=[], metavar="NAME=H:P", help="a socket; repeatable")
    parser.add_argument("--stop-wait", type=float, default=40.0, metavar="S", help="seconds for a worker to end (40)")
    parser.add_argument("--watchdog", type=float, default=30.0, metavar="S", help="seconds without a sign of life (30)")
    options = parser.parse_args(given[:cut])
    command = given[cut + 1 :]
    if not command or not options.listen:
        parser.error("--listen NAME=H:P and a launcher after -- are wanted")
    try:
        wanted = [(name, *_address(where)) for name, _, where in (one.partition("=") for one in options.listen)]
    except ValueError as error:
        parser.error(str(error))
    try:
        return Holder(options.state, bind(wanted), command, options.stop_wait, options.watchdog).run()
    except CannotListen as error:
        _say(f"error: {error}")
        return 1


def bind(wanted: list[tuple[str, str, int]], within: float = BIND_WITHIN) -> dict[str, socket.socket]:
    """Listen on each address. Raises `CannotListen`, for a taken one only after `within` seconds."""
    deadline = time.monotonic() + within
    held: dict[str, socket.socket] = {}
    told = False
    for name, host, port in wanted:
        while name not in held:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                held[name] = socket.create_server((host, port), family=family, backlog=BACKLOG)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                    for sock in held.values():
                        sock.close()
                    raise CannotListen(f"cannot listen on {host}:{port} ({name}): {error.strerror}") from error
                if not told:
                    _say(f"{host}:{port} ({name}) is taken; waiting up to {within:g} s for it")
                told = True
                time.sleep(0.1)
    return held


class Holder:
    """Sockets, and one worker behind them. Single-threaded; `run` does everything."""

    def __init__(self, state: Path, held: dict[str, socket.socket], command: list[str], *waits: float) -> None:
        self._file, self._held, self._command = state, held, command
        self._stop_wait, self._watchdog = waits
        self._silent, self._look_at = 0, math.inf  # looks without a sign of life; the next one, once there was a sign
        self._lifeline = os.pipe()
        self._notify, self._notify_name, self._folder = _notify_socket()
        self._worker: int | None = None
        self._pause = FIRST_PAUSE
        self._start_at: float | None = 0.0
        self._stop_by: float | None = None
        self._hurried = self._ending = False
        self._started, self._code = 0.0, 0
        self._told: dict[str, Any] = {"number": 0, "ready": False, "status": "", "release": None}
        self._told.update(ends=0, last_end=None)

    def run(self) -> int:
        """Keep a worker until SIGTERM; return the exit code."""
        reading, writing = os.pipe()
        for end in (reading, writing):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        try:
            while not (self._ending and self._worker is None):
                self._turn(reading)
        finally:
            self._file.unlink(missing_ok=True)
            self._notify.close()
            shutil.rmtree(self._folder, ignore_errors=True)
        return self._code

    def _turn(self, signals: int) -> None:
        now = time.monotonic()
        if self._worker is None and self._start_at is not None and now >= self._start_at:
            self._start()
        if self._worker is not None and self._stop_by is not None and now >= self._stop_by:
            self._hurry()
        self._look(now)
        due = [at - now for at in (self._stop_by if self._worker else self._start_at, self._look_at) if at is not None]
        found, _, _ = select.select([signals, self._notify.fileno()], [], [], max(0.0, min(3600.0, *due)))
        if self._notify.fileno() in found:
            self._hear()
        if signals in found:
            for number in os.read(signals, 4096):
                self._signalled(number)
        self._reap()

    def _signalled(self, number: int) -> None:
        if number == signal.SIGHUP and not self._ending:
            _say("replacing the worker")
            self._start_at = time.monotonic()
            self._stop()
        elif number in (signal.SIGTERM, signal.SIGINT):
            if self._ending:
                self._send(signal.SIGTERM)
            self._ending, self._start_at = True, None
            for sock in self._held.values():  # who comes now would wait for nobody
                sock.close()
            self._stop()

    def _stop(self) -> None:
        if self._worker is not None and self._stop_by is None:
            self._stop_by = time.monotonic() + self._stop_wait
            self._told["ready"] = False
            self._write()
            self._send(signal.SIGTERM)

    def _hurry(self) -> None:
        _say(f"the worker (pid {self._worker}) takes too long to end")
        self._send(signal.SIGKILL if self._hurried else signal.SIGTERM)
        self._hurried, self._stop_by = True, time.monotonic() + HURRY_WITHIN

    def _look(self, now: float) -> None:
        """End a worker that hangs. Looks are counted, not seconds: after a pause of the machine it has its time."""
        if self._stop_by is not None or self._worker is None:
            self._look_at = math.inf
        elif now >= self._look_at:
            self._look_at, self._silent = now + self._watchdog / 3, self._silent + 1
            if self._silent == 3:
                _say(f"the worker (pid {self._worker}) has given no sign of life for {self._watchdog:g} s: killed")
                self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        if self._worker is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._worker, number)

    def _start(self) -> None:
        self._stop_by, self._hurried, self._start_at = None, False, None
        self._started = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # a signal for the child must not be taken for one for us
        self._worker = os.fork()
        if self._worker == 0:
            self._become_worker()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        self._told.update(number=self._told["number"] + 1, ready=False, status="", release=None)
        self._write()
        _say(f"started worker {self._told['number']} (pid {self._worker})")

    def _become_worker(self) -> None:
        """In the child: descriptors 3 and up, the environment, and the launcher. Never returns."""
        try:
            signal.set_wakeup_fd(-1)
            for one in _SIGNALS:
                signal.signal(one, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            sources = [sock.fileno() for sock in self._held.values()] + [self._lifeline[0]]
            safe = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3 + len(sources)) for one in sources]
            for number, descriptor in enumerate(safe, 3):
                os.dup2(descriptor, number)
            me = str(os.getpid())
            environ = {**os.environ, "LISTEN_FDS": str(len(safe)), "LISTEN_PID": me, "WATCHDOG_PID": me}
            environ["LISTEN_FDNAMES"] = ":".join([*self._held, "lifeline"])
            environ["NOTIFY_SOCKET"] = self._notify_name
            environ["WATCHDOG_USEC"] = f"{self._watchdog * 1e6:.0f}"
            os.execvpe(self._command[0], self._command, environ)  # noqa: S606 - the launcher that the manager wrote
        except OSError as error:
            _say(f"cannot start {self._command[0]}: {error.strerror}")
        finally:
            os._exit(127)

    def _reap(self) -> None:
        if self._worker is None:
            return
        pid, raw = os.waitpid(self._worker, os.WNOHANG)
        if pid == 0:
            return
        self._hear()
        code = os.waitstatus_to_exitcode(raw)
        words = f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.Signals(-code).name})"
        _say(f"worker {self._told['number']} (pid {pid}) ended with {words}")
        self._worker = self._stop_by = None
        self._told.update(ready=False, last_end=words)
        if self._ending:
            self._code = code if code >= 0 else 128 - code
        elif self._start_at is None:
            self._told["ends"] += 1
            stable = time.monotonic() - self._started >= STABLE_AFTER
            self._pause = FIRST_PAUSE if stable else min(MAX_PAUSE, self._pause * 2)
            self._start_at = time.monotonic() + self._pause
        self._write()

    def _hear(self) -> None:
        """What the worker says of itself; a stopping one may ask for more time."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._heard(self._notify.recv(4096).decode("utf-8", "replace"))

    def _heard(self, text: str) -> None:
        words = dict(line.partition("=")[::2] for line in text.splitlines())
        if words.get("WATCHDOG") == "1":
            self._look_at, self._silent = time.monotonic() + self._watchdog / 3, 0
            return
        if "STATUS" in words:
            self._told["status"] = words["STATUS"]
        if words.get("READY") == "1" and self._stop_by is None:
            found = re.search(r"\brelease=(\S+)", self._told["status"])
            self._told.update(ready=True, release=found[1] if found else None)
        more = words.get("EXTEND_TIMEOUT_USEC", "")
        if more.isdigit() and self._stop_by is not None and not self._hurried:
            self._stop_by = max(self._stop_by, time.monotonic() + int(more) / 1e6)
        self._write()

    def _write(self) -> None:
        at = {
            name: ":".join(map(str, sock.getsockname()[:2])) for name, sock in self._held.items() if sock.fileno() >= 0
        }
        state = {"holder": os.getpid(), "worker": self._worker, **self._told, "listeners": at}
        fresh = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        fresh.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        fresh.replace(self._file)


def _notify_socket() -> tuple[socket.socket, str, str]:
    """Where the worker speaks, its name, and its folder: none on Linux, elsewhere a private one for its file."""
    sock, folder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), ""
    sock.settimeout(0)
    if sys.platform == "linux":
        sock.bind("")  # the kernel chooses a name without a file
        name = "@" + sock.getsockname()[1:].decode("ascii")
    else:
        folder = tempfile.mkdtemp(prefix="iop-")
        name = f"{folder}/n"
        sock.bind(name)
    return sock, name, folder


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"not a host:port address: {text!r}")
    return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), int(port)


def _say(text: str) -> None:
    print(f"holder: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
