"""iop_release.services.supervisor: the real supervisord, with programs that do nothing."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iop_release import processes
from iop_release.errors import ReleaseError
from iop_release.services import supervisor_conf
from iop_release.services.contract import Service
from iop_release.services.supervisor import Supervisor, tail

IDLE = "import signal; print('hello', flush=True); signal.pause()"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """An environment's folder; whatever is started in it ends with the test."""
    yield tmp_path
    Supervisor(tmp_path).down()


def _service(home: Path, name: str = "mac.edge", code: str = IDLE, **env: str) -> Service:
    mark = f"iop-release={home}/hosts/mac/releases/r1"
    return Service(name, (sys.executable, "-X", mark, "-c", code), env, stop_wait_s=5)


def _ours(home: Path) -> list[int]:
    return [one.pid for one in processes.services_under(home, processes.table())]


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_service_lives_and_dies(home: Path) -> None:
    """Start, new definition, stop, remove, down: each shows in what runs, and nothing is left."""
    manager, log = Supervisor(home), home / "edge.log"
    assert manager.running() == {}
    manager.ensure()
    first = manager.start(_service(home), log)
    assert (first.state, _ours(home)) == ("running", [first.pid])
    assert log.read_text(encoding="utf-8") == "hello\n"

    manager.stop("mac.edge")
    second = manager.start(_service(home, COLOUR="red"), log)
    assert second.pid != first.pid
    assert _ours(home) == [second.pid]

    manager.stop("mac.edge")
    manager.stop("mac.edge")
    assert manager.running()["mac.edge"].state == "stopped"
    manager.remove("mac.edge")
    assert manager.running() == {}
    manager.down()
    assert not supervisor_conf.socket_folder(home).exists()
    assert manager.down() == []


def test_a_program_that_fails_tells_its_last_words(home: Path) -> None:
    """A program that does not stay up is stopped, and its log's end is in the error."""
    manager = Supervisor(home)
    manager.ensure()

    with pytest.raises(ReleaseError, match=r"(?s)mac\.edge does not stay up.*no luck today"):
        manager.start(_service(home, code="import sys; sys.exit('no luck today')"), home / "edge.log")
    assert manager.running()["mac.edge"].pid is None


def test_orphans_of_a_killed_supervisord_are_ended(home: Path) -> None:
    """After kill -9 of supervisord its program lives on; the next `ensure` ends it and only it."""
    manager = Supervisor(home)
    manager.ensure()
    orphan = manager.start(_service(home), home / "edge.log").pid
    daemon = int((home / "supervisor" / "supervisord.pid").read_text(encoding="utf-8"))
    os.kill(daemon, signal.SIGKILL)
    _until(lambda: processes.read(daemon) is None)
    assert (manager.running(), _ours(home)) == ({}, [orphan])

    manager.ensure()

    assert _ours(home) == []
    assert manager.start(_service(home), home / "edge.log").state == "running"


def test_a_supervisord_without_its_socket_is_replaced(home: Path) -> None:
    """When the temp folder was swept, the old supervisord is ended by pid and a new one started."""
    manager = Supervisor(home)
    manager.ensure()
    manager.start(_service(home), home / "edge.log")
    daemon = int((home / "supervisor" / "supervisord.pid").read_text(encoding="utf-8"))
    (supervisor_conf.socket_folder(home) / "supervisor.sock").unlink()

    manager.ensure()

    assert processes.read(daemon) is None
    assert _ours(home) == []
    assert manager.running()["mac.edge"].state == "stopped"


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    """The last lines, or a note that there are none."""
    log = tmp_path / "x.log"
    assert tail(log) == "  | (nothing was logged)"
    log.write_text("a\nb\nc\n", encoding="utf-8")
    assert tail(log, 2) == "  | b\n  | c"


#: takes its socket, says that it is ready, and answers one byte to each client until it is told to stop
HELD = """
import os, signal, socket
listener, alive = socket.socket(fileno=3), [True]
signal.signal(signal.SIGTERM, lambda *_: alive.clear())
listener.settimeout(0.01)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
    manager.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"].replace("@", chr(0), 1))
while alive:
    try:
        connection, _ = listener.accept()
    except TimeoutError:
        continue
    with connection:
        connection.sendall(os.environ["COLOUR"].encode())
"""


def _ask(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        return client.makefile().read()


def test_a_service_with_listeners_is_replaced_behind_its_sockets(home: Path) -> None:
    """The worker is what counts as the service; a new start replaces it and leaves the holder; a bad one is told and a
    good one repairs it; a new address is a new holder; nothing is left in the end.
    """
    manager, log = Supervisor(home), home / "edge.log"
    manager.ensure()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = [one.getsockname()[1], two.getsockname()[1]]
    service = replace(_service(home, code=HELD, COLOUR="red"), listeners={"openai": f"127.0.0.1:{ports[0]}"})
    first = manager.start(service, log)
    (holder,) = [one for one in processes.table() if f"{processes.HOLDER}{home}" in one.argv]
    assert manager.running()["mac.edge"] == first
    assert _ours(home) == [holder.pid, first.pid]
    assert _ask(ports[0]) == "red"

    second = manager.start(replace(service, env={"COLOUR": "blue"}), log)
    assert second.pid != first.pid
    assert _ours(home) == [holder.pid, second.pid]
    assert _ask(ports[0]) == "blue"

    with pytest.raises(ReleaseError, match=r"(?s)mac\.edge does not stay up \(exit code 1\).*no luck today"):
        manager.start(replace(service, argv=_service(home, code="import sys; sys.exit('no luck today')").argv), log)
    assert manager.running()["mac.edge"].state == "failed"
    waiting = socket.create_connection(("127.0.0.1", ports[0]), timeout=30)
    manager.start(replace(service, env={"COLOUR": "green"}), log)
    with waiting:
        assert waiting.makefile().read() == "green"

    moved = manager.start(replace(service, listeners={"openai": f"127.0.0.1:{ports[1]}"}), log)
    assert holder.pid not in _ours(home)
    assert moved.pid in _ours(home)
    assert _ask(ports[1]) == "red"
    assert manager.down()
    assert _ours(home) == []


def test_a_lost_holder_is_ended_before_its_worker(home: Path) -> None:
    """After kill -9 of supervisord both live on; the next `ensure` ends both, and no worker is started again."""
    manager, log = Supervisor(home), home / "edge.log"
    manager.ensure()
    manager.start(replace(_service(home, code=HELD, COLOUR="red"), listeners={"openai": "127.0.0.1:0"}), log)
    (daemon,) = manager._daemons()
    os.kill(daemon.pid, signal.SIGKILL)
    _until(lambda: not manager._daemons())
    assert len(_ours(home)) == 2
    manager.ensure()
    assert _ours(home) == []
