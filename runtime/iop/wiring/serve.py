"""The life of every serving process: start, one ready line, signals, drain, stop, exit code."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import Protocol, TypeVar

from iop.transport.listening import PortBusy, listening, port_owner
from iop.wiring import logs
from iop.wiring.notify import Notifier

__all__ = ["PortBusy", "Service", "listening", "port_owner", "serve"]

STOP_WITHIN = 10.0  # seconds: `stop` frees things and never waits for work, so this is a guard against a hang

GC_YOUNG = 20_000  # objects made and still there after which the youngest are looked at; Python's 700 are for programs

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Service(Protocol):
    """A process that serves until a signal."""

    async def start(self) -> str:
        """Bind and start; return the ready line. Raises `PortBusy` (see `listening`) when an address is taken."""

    async def drain(self) -> None:
        """Take no new work; finish what runs, or cut it at the drain deadline. May be cancelled by a second signal."""

    async def stop(self) -> None:
        """Free everything now. Called once, also when `start` failed or was cut."""


def serve(
    service_factory: Callable[[], Service],
    *,
    log_level: str,
    log_format: str,
    notifier: Notifier | None = None,
    lifeline: int | None = None,
) -> int:
    """Run the service until SIGTERM or SIGINT and return the exit code.

    0 after a signal (the first drains, a second stops at once); 1 when it cannot start, with one line on stderr
    (a traceback in the log at level debug only). The service is built inside the running loop.

    `notifier` tells the service manager (the one of the environment if None). `lifeline` is the end of a pipe whose
    other end only our parent has: its end of file, which is the parent's death, counts as one signal.
    """
    logs.configure(log_level, log_format)
    told = notifier or Notifier.take(os.environ)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(service_factory, told, lifeline))


async def _serve(service_factory: Callable[[], Service], notifier: Notifier, lifeline: int | None) -> int:
    signals = _Signals()
    with signals.installed(), contextlib.closing(notifier):
        if lifeline is not None:
            signals.follow(lifeline)
        try:
            service = service_factory()
        except Exception as error:  # noqa: BLE001 - outermost border of a process
            return _start_failed(error)
        try:
            return await _live(service, signals, notifier)
        finally:
            await _stop(service)


async def _live(service: Service, signals: "_Signals", notifier: Notifier) -> int:
    try:
        ready = await signals.cut_at(1, service.start())
    except Exception as error:  # noqa: BLE001 - outermost border of a process
        return _start_failed(error)
    if ready is None:  # a signal cut the start
        return 0
    _settle_memory()
    print(ready, flush=True)  # noqa: T201 - the ready line is the one thing a serving process says on stdout
    notifier.ready(ready)
    await signals.reached(1)
    notifier.stopping("finishing what runs")
    _log.info("stopping: finishing what runs; a second signal stops at once")
    try:
        await signals.cut_at(2, service.drain())
    except Exception:  # noqa: BLE001 - outermost border of a process
        _log.exception("the drain failed; stopping")
    return 0


def _settle_memory() -> None:
    """What is there after the start stays to the end: the collector need not look at it again, nor every few requests.

    Requests leave few cycles behind; a collection of the young still comes every 20,000 objects that stay.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNG, 20, 20)


async def _stop(service: Service) -> None:
    try:
        async with asyncio.timeout(STOP_WITHIN):
            await service.stop()
    except Exception:  # noqa: BLE001 - outermost border of a process
        _log.exception("the stop was not clean")


def _start_failed(error: Exception) -> int:
    _log.debug("start failed", exc_info=error)
    text = str(error) or type(error).__name__
    sys.stderr.write(f"error: {' '.join(logs.redact(text).split())}\n")
    sys.stderr.flush()
    return 1


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The loop of uvloop where it exists, else the platform's default (on Windows the one that can start programs)."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


class _Signals:
    """Counts the stop signals; waits for them, and cuts work at a given one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._count = 0
        self._arrived = asyncio.Event()
        self._cut: asyncio.Timeout | None = None
        self._cut_number = 0

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Take the stop signals while inside, by the loop where it can, else by the interpreter (Windows).

        Afterwards the process is deaf to them: one that comes while it exits must not change its exit code.
        """
        for number in _stop_signals():
            self._install(number)
        try:
            yield
        finally:
            _deafen()

    def follow(self, lifeline: int) -> None:
        """Take the end of file of this pipe for a signal."""

        def ended() -> None:
            self._loop.remove_reader(lifeline)
            _log.warning("the process that started this one is gone")
            self._arrive()

        self._loop.add_reader(lifeline, ended)

    async def reached(self, number: int) -> None:
        """Wait for the `number`-th signal."""
        while self._count < number:
            self._arrived.clear()
            await self._arrived.wait()

    async def cut_at(self, number: int, work: Awaitable[_T]) -> _T | None:
        """Await `work`; the `number`-th signal cancels it and the result is None."""
        cut = asyncio.timeout(self._loop.time() if self._count >= number else None)
        try:
            async with cut:
                self._cut, self._cut_number = cut, number
                return await work
        except TimeoutError:
            if not cut.expired():
                raise
            return None
        finally:
            self._cut = None

    def _arrive(self) -> None:
        self._count += 1
        self._arrived.set()
        if self._cut is not None and self._count >= self._cut_number and not self._cut.expired():
            self._cut.reschedule(self._loop.time())

    def _install(self, number: signal.Signals) -> None:
        try:
            self._loop.add_signal_handler(number, self._arrive)
        except NotImplementedError:
            signal.signal(number, self._from_interpreter)

    def _from_interpreter(self, _number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has just closed
            self._loop.call_soon_threadsafe(self._arrive)


def _stop_signals() -> tuple[signal.Signals, ...]:
    names = ("SIGTERM", "SIGINT", "SIGBREAK")  # SIGBREAK: Windows' CTRL_BREAK
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


def _deafen() -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, _stop_signals())
    else:
        for number in _stop_signals():
            signal.signal(number, signal.SIG_IGN)
