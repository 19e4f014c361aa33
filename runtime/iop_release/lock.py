"""One at a time: a file that a process holds while it works, on every system."""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from iop_release.layout import WINDOWS

LOCK = ".lock"
_RETRY_S = 0.2


@contextlib.contextmanager
def alone(folder: Path, *, windows: bool = WINDOWS, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Hold this folder's lock, waiting for whoever has it; the system lets go of it when the process ends."""
    with locked(folder / LOCK, windows=windows, sleep=sleep):
        yield


@contextlib.contextmanager
def locked(path: Path, *, windows: bool = WINDOWS, sleep: Callable[[float], None] = time.sleep) -> Iterator[IO[bytes]]:
    """Open this file, made where it is missing, and lock it as `alone` does; what is written is added at its end.

    Who can open the file can hold the lock: only its owner.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a+b") as file:
        if windows:
            with _held_on_windows(file, sleep):
                yield file
        else:
            fcntl: Any = importlib.import_module("fcntl")  # not there on Windows
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file


@contextlib.contextmanager
def _held_on_windows(file: IO[bytes], sleep: Callable[[float], None]) -> Iterator[None]:
    """Its first byte is locked; msvcrt has no call that waits for as long as it takes."""
    msvcrt: Any = importlib.import_module("msvcrt")
    while True:
        try:
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            break
        except OSError:
            sleep(_RETRY_S)
    try:
        yield
    finally:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
