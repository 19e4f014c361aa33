"""What holds of every test: it leaves this process as it found it."""

from collections.abc import Iterator

import pytest
import uvloop

from tests.fakes.hygiene import nothing_left


@pytest.fixture(scope="session", autouse=True)
def _uvloop_is_loaded() -> None:
    """Its library opens a pipe for signals at its first loop, and keeps it for the life of the process."""
    uvloop.new_event_loop().close()


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    """Open handles, child processes and threads are back to what they were before the test and its fixtures."""
    with nothing_left():
        yield
