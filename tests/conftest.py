"""What holds of every test: it leaves this process as it found it."""

import contextlib
import logging
import signal
from collections.abc import Generator, Iterator

import pytest

from tests.fakes.hygiene import nothing_left


@pytest.fixture(scope="session", autouse=True)
def _uvloop_is_loaded() -> None:
    """Its library opens a pipe for signals at its first loop, and keeps it for the life of the process."""
    with contextlib.suppress(ImportError):  # no uvloop on Windows
        import uvloop

        uvloop.new_event_loop().close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    """An Edge that ends leaves SIGHUP ignored, and programs inherit that; here the process goes on.

    A hook, since an Edge of a whole module ends after every fixture of its last test.
    """
    yield
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """A serving process owns its log; where a test serves in this process, the loggers are given back afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("iop")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    """Open handles, child processes and threads are back to what they were before the test and its fixtures."""
    with nothing_left():
        yield
