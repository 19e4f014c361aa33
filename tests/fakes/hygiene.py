"""What a test must leave as it found it: handles, child processes, threads, tasks, the log, and an Edge's counters."""

import asyncio
import contextlib
import gc
import logging
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iop.domain.law import violations_of_status
from tests.fakes.until import until

CLEAN = {"double_release": 0, "stale_release": 0, "node_over_capacity": 0}
#: what no healthy process writes into its log
FAULTS = ("Traceback (most recent call last)", "Task was destroyed", "never retrieved", "was never awaited", "Unclosed")
PATIENCE = 10.0  # seconds: a socket needs some turns of a loop to close, a child some time to be reaped


def handles(pid: int | None = None) -> dict[str, str]:
    """Open file descriptors of a process (default: this one) by number, as the kernel names them (Linux; else none)."""
    folder = Path("/proc") / ("self" if pid is None else str(pid)) / "fd"
    found = {}
    with contextlib.suppress(OSError):
        for entry in folder.iterdir():
            with contextlib.suppress(OSError):
                found[entry.name] = str(entry.readlink())
    # the folder that is being read here
    return {number: name for number, name in found.items() if not name.endswith("/fd")}


def children(pid: int | None = None) -> set[int]:
    """Pids of the direct children of a process (default: this one), dead ones that nobody reaped among them."""
    found: set[int] = set()
    for task in (Path("/proc") / str(pid or os.getpid()) / "task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, task.read_text(encoding="ascii").split()))
    return found


@dataclass(frozen=True)
class Baseline:
    """What this process holds at one moment."""

    handles: Mapping[str, str]
    children: frozenset[int]
    threads: frozenset[threading.Thread]

    @classmethod
    def now(cls) -> "Baseline":
        """Look."""
        return cls(handles(), frozenset(children()), frozenset(threading.enumerate()))

    def left_over(self, *, threads: bool = True) -> list[str]:
        """What there is now beyond the baseline, in words. A living loop's `threads` need not count."""
        now = Baseline.now()
        found = [_handle(n, name) for n, name in now.handles.items() if self.handles.get(n) != name]
        found += [_child(pid) for pid in now.children - self.children]
        return found + [_thread(thread) for thread in now.threads - self.threads if threads]


def _handle(number: str, name: str) -> str:
    """Name an open handle; a socket's kernel name says nothing, its addresses do."""
    if not name.startswith("socket:"):
        return f"handle {number}: {name}"
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(number))) as twin:
        return f"handle {number}: {name} {twin.family.name} at {twin.getsockname()!r}, peer {_peer(twin)}"
    return f"handle {number}: {name}"


def _peer(sock: socket.socket) -> str:
    try:
        return repr(sock.getpeername())
    except OSError:
        return "none"


def _child(pid: int) -> str:
    command = b""
    with contextlib.suppress(OSError):
        command = (Path("/proc") / str(pid) / "cmdline").read_bytes()
    return (
        f"child process {pid}: {command.replace(bytes(1), b' ').decode(errors='replace').strip() or 'dead, not reaped'}"
    )


def _thread(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    where = traceback.format_stack(frame, limit=1)[0].strip().replace("\n", " ") if frame else "not running"
    return f"thread {thread.name}: {where}"


@contextlib.contextmanager
def nothing_left(within: float = PATIENCE) -> Iterator[None]:
    """Fail when the block leaves handles, child processes or threads behind `within` seconds."""
    before = Baseline.now()
    yield
    if not before.left_over():
        return
    gc.collect()
    deadline = time.monotonic() + within
    while before.left_over() and time.monotonic() < deadline:
        time.sleep(0.01)  # what is closing closes in the kernel or in another thread: there is no event to wait for
    left = before.left_over()
    assert not left, "\n  ".join(["the test left behind:", *left])


@contextlib.asynccontextmanager
async def clean_loop() -> AsyncIterator[None]:
    """Fail when the block leaves tasks or handles behind, or logged an error. A block that failed is let be."""
    before, tasks = Baseline.now(), asyncio.all_tasks()
    with errors_logged() as errors:
        yield
        await until(lambda: asyncio.all_tasks() - {asyncio.current_task()} <= tasks)
        gc.collect()  # what was dropped without an end would speak up here (warnings are errors)
        with contextlib.suppress(TimeoutError):
            await until(lambda: not before.left_over(threads=False), within=PATIENCE)
    left = before.left_over(threads=False)
    assert not left, f"left behind: {left}"
    logged = [record.getMessage() for record in errors]
    assert not logged, f"logged: {logged}"


@contextlib.contextmanager
def errors_logged() -> Iterator[list[logging.LogRecord]]:
    """Collect log records that no healthy process writes: errors, and anything with a traceback."""
    records: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR or record.exc_info:
                records.append(record)

    keeper = Keeper()
    logging.getLogger().addHandler(keeper)
    try:
        yield records
    finally:
        logging.getLogger().removeHandler(keeper)


def check_status(status: Mapping[str, Any]) -> None:
    """Assert what holds of every status: both equations of the conservation law, and no anomaly."""
    broken = violations_of_status(status)
    assert not broken, broken
    assert status["anomalies"] == CLEAN, status["anomalies"]


def is_idle(status: Mapping[str, Any]) -> bool:
    """True when a status tells of no work at all, pool and direct alike."""
    totals = status["totals"]
    direct = [node["direct"]["in_flight"] for node in status["nodes"]]
    return totals["in_flight"] == totals["queued"] == 0 and not any(direct)


def faults_in(log: str) -> list[str]:
    """Return the lines of a log that no healthy process writes."""
    return [line for line in log.splitlines() if any(fault in line for fault in FAULTS)]
