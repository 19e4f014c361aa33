"""What a process tells its service manager, over a real datagram socket."""

import asyncio
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iop.wiring.notify import Notifier
from tests.fakes.until import until

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no sockets in the file system")
ABSTRACT = pytest.param("abstract", marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux only"))


class Manager:
    """The manager's end: all words that came, in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self._socket.settimeout(0)
        self._words: list[str] = []

    @property
    def words(self) -> list[str]:
        """Every assignment that has come so far."""
        try:
            while True:
                self._words += self._socket.recv(4096).decode().split("\n")
        except BlockingIOError:
            return self._words

    def count(self, word: str) -> int:
        """How often a word has come."""
        return self.words.count(word)

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Manager]]:
    """Make a manager of a kind; closed at the end."""
    made: list[Manager] = []

    def manager(kind: str = "path") -> Manager:
        name = f"@iop-test-{os.getpid()}" if kind == "abstract" else os.path.relpath(tmp_path / "n")
        made.append(Manager(os.path.abspath(name) if kind == "path" else name))  # noqa: PTH100 - text is what is told
        return made[-1]

    yield manager
    for one in made:
        one.close()


@pytest.mark.parametrize("kind", ["path", ABSTRACT])
async def test_a_life_is_told(make: Callable[[str], Manager], kind: str) -> None:
    """Ready with the status line, a reload, and the stop, which asks for time; nothing else without a watchdog."""
    manager = make(kind)
    notifier = Notifier.take({"NOTIFY_SOCKET": manager.name})
    notifier.ready("ready edge=e")
    with notifier.reloading():
        assert manager.words[-2:][0] == "RELOADING=1"
        assert manager.words[-1].startswith("MONOTONIC_USEC=")
    notifier.stopping("finishing what runs")
    notifier.close()
    told = [word for word in manager.words if not word.startswith("MONOTONIC_USEC=")]

    assert told == [
        "READY=1",
        "STATUS=ready edge=e",
        "RELOADING=1",
        "READY=1",
        "STATUS=ready edge=e",
        "STOPPING=1",
        "STATUS=finishing what runs",
        "EXTEND_TIMEOUT_USEC=20000000",
    ]


async def test_the_loop_itself_is_the_sign_of_life(make: Callable[[str], Manager]) -> None:
    """WATCHDOG=1 comes again and again at half of the patience; a loop that hangs sends none."""
    manager = make("path")
    notifier = Notifier.take(
        {"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": str(os.getpid())}
    )
    notifier.ready("up")
    await until(lambda: manager.count("WATCHDOG=1") >= 3)
    before = manager.count("WATCHDOG=1")
    threading.Event().wait(0.2)  # the loop hangs for ten times the patience
    assert manager.count("WATCHDOG=1") == before
    await until(lambda: manager.count("WATCHDOG=1") > before)
    notifier.close()


@pytest.mark.parametrize(
    "given",
    [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": ""}],
    ids=["other-process", "zero", "words", "none"],
)
async def test_no_watchdog_for_others(make: Callable[[str], Manager], given: dict[str, str]) -> None:
    """A patience that is not for this process, or is none, starts nothing."""
    manager = make("path")
    notifier = Notifier.take({"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "2000", **given})
    notifier.ready("up")
    await asyncio.sleep(0.05)  # 25 times the patience
    notifier.close()
    assert manager.words == ["READY=1", "STATUS=up"]


def test_the_variables_are_taken(make: Callable[[str], Manager]) -> None:
    """No child of this process can speak in its name."""
    environ = {"NOTIFY_SOCKET": make("path").name, "WATCHDOG_USEC": "2000", "WATCHDOG_PID": "1", "HOME": "/"}
    Notifier.take(environ)
    assert environ == {"HOME": "/"}


@pytest.mark.parametrize("where", ["/nowhere/at/all", "relative", "vsock:2:1234", "/" + "x" * 300])
async def test_a_broken_socket_is_no_error(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """At most one line in the log, and nothing more is tried."""
    notifier = Notifier.take({"NOTIFY_SOCKET": where, "WATCHDOG_USEC": "2000"})
    with caplog.at_level(logging.WARNING):
        notifier.ready("up")
        with notifier.reloading():
            pass
        notifier.stopping("down")
        notifier.close()
    assert len(caplog.records) == where.startswith("/")


async def test_a_manager_that_does_not_read_is_no_error(make: Callable[[str], Manager]) -> None:
    """A full queue loses words; it neither blocks nor raises."""
    manager = make("path")
    notifier = Notifier.take({"NOTIFY_SOCKET": manager.name})
    for _ in range(2000):
        notifier.ready("up")
    notifier.close()
    assert 0 < manager.count("READY=1") < 2000
