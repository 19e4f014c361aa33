"""iop_release.holder: a real parent with workers of a few lines, over real sockets."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iop_release import holder

#: takes one socket; answers each connection with its own number; a stop closes the socket and ends what it accepted
WORKER = """
import os, signal, socket, sys
assert os.environ["LISTEN_PID"] == str(os.getpid()) and os.environ["LISTEN_FDNAMES"] == "openai:lifeline"
listener, alive = socket.socket(fileno=3), True
def tell(*words):
    name = os.environ["NOTIFY_SOCKET"].replace("@", chr(0), 1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.sendto("\\n".join(words).encode(), name)
def stop(*_):
    global alive
    alive = False
signal.signal(signal.SIGTERM, stop)
listener.settimeout(0.01)
tell("READY=1", "STATUS=ready edge=e release=" + sys.argv[1])
while alive:
    try:
        connection, _ = listener.accept()
    except TimeoutError:
        continue
    with connection:
        connection.sendall(sys.argv[1].encode())
"""


def _status(pid: int) -> dict[str, str]:
    """/proc/<pid>/status; empty where there is none, and then what is asked of it is taken for granted."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def _is_stopped(pid: int) -> bool:
    """Whether SIGSTOP has reached it; until then a later signal of a lower number would be taken first."""
    return _status(pid).get("State", "T").startswith("T")


def _has_waiting(pid: int, number: signal.Signals) -> bool:
    """Whether a stopped process has this signal waiting for it."""
    found = _status(pid)
    return not found or any(int(found[name], 16) >> (number - 1) & 1 for name in ("SigPnd", "ShdPnd"))


class Rig:
    """One holder and its launcher."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launcher = folder / "run.sh"
        self.state_file = folder / "state.json"
        self.log = folder / "log"
        self.child: subprocess.Popen[bytes] | None = None

    def launch(self, code: str = WORKER, *arguments: str) -> None:
        """Write the launcher, in one step."""
        (self.folder / "worker.py").write_text(WORKER, encoding="utf-8")
        program = [sys.executable, str(self.folder / "worker.py")] if code is WORKER else [sys.executable, "-c", code]
        fresh = self.launcher.with_suffix(".new")
        fresh.write_text(f"#!/bin/sh\nexec {' '.join(map(shlex.quote, [*program, *arguments]))}\n", encoding="utf-8")
        fresh.chmod(0o700)
        fresh.replace(self.launcher)

    def start(self, *options: str, listen: str = "127.0.0.1:0") -> None:
        """Start the holder as a file of its own, as it is deployed."""
        command = [sys.executable, "-I", holder.__file__, "--state", str(self.state_file), "--listen"]
        command += [f"openai={listen}", *options, "--", str(self.launcher)]
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def state(self) -> dict[str, Any]:
        """What the holder last wrote, empty when there is nothing."""
        try:
            found: dict[str, Any] = json.loads(self.state_file.read_text(encoding="utf-8"))
        except OSError:
            return {}
        return found

    def until(self, check: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait for a state."""
        deadline = time.monotonic() + 30
        while not (self.state and check(self.state)):
            assert time.monotonic() < deadline, (self.state, self.log.read_text(encoding="utf-8"))
            time.sleep(0.01)
        return self.state

    def signal(self, number: signal.Signals) -> None:
        """Send the holder a signal."""
        assert self.child is not None
        self.child.send_signal(number)

    def connect(self) -> socket.socket:
        """A new client."""
        host, port = self.state["listeners"]["openai"].rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=30)

    def ask(self) -> str:
        """What a new client gets."""
        with self.connect() as client:
            return client.makefile().read()

    def end(self) -> int:
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        assert self.child is not None
        return self.child.wait(30)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A folder for one holder; whatever runs ends with the test."""
    made = Rig(tmp_path)
    yield made
    if made.child is not None and made.child.poll() is None:
        worker = made.state.get("worker")
        made.child.kill()
        made.child.wait()
        if worker is not None:
            os.kill(worker, signal.SIGKILL)


def test_a_hangup_replaces_the_worker_and_nobody_is_refused(rig: Rig) -> None:
    """The next worker is what the launcher then says; who connects between two workers is served by the second."""
    rig.launch(WORKER, "one")
    rig.start()
    first = rig.until(lambda state: state["ready"])
    assert (first["release"], rig.ask()) == ("one", "one")
    rig.launch(WORKER, "two")
    os.kill(first["worker"], signal.SIGSTOP)  # it accepts nothing, and cannot end either
    rig.until(lambda state: _is_stopped(first["worker"]))
    early = rig.connect()
    rig.signal(signal.SIGHUP)
    rig.until(lambda state: not state["ready"] and _has_waiting(first["worker"], signal.SIGTERM))
    clients = [rig.connect() for _ in range(20)]
    os.kill(first["worker"], signal.SIGCONT)
    second = rig.until(lambda state: state["number"] == 2 and state["ready"])
    answers = [client.makefile().read() for client in (early, *clients)]
    for client in (early, *clients):
        client.close()

    assert set(answers) <= {"one", "two"}
    assert answers.count("two") >= 19  # the first may take one or two before it sees that it shall end
    assert (second["holder"], second["ends"], second["release"]) == (first["holder"], 0, "two")
    assert second["worker"] != first["worker"]
    assert rig.ask() == "two"
    assert rig.end() == 0
    assert not rig.state_file.exists()


def test_a_worker_that_dies_is_started_again(rig: Rig) -> None:
    """Its end is told, with its number; the addresses stay."""
    rig.launch(WORKER, "one")
    rig.start()
    first = rig.until(lambda state: state["ready"])
    os.kill(first["worker"], signal.SIGKILL)
    second = rig.until(lambda state: state["number"] == 2 and state["ready"])

    assert (second["ends"], second["last_end"]) == (1, "signal 9 (SIGKILL)")
    assert second["listeners"] == first["listeners"]
    assert rig.ask() == "one"
    assert rig.end() == 0
    assert f"worker 1 (pid {first['worker']}) ended with signal 9 (SIGKILL)" in rig.log.read_text(encoding="utf-8")


def test_a_launcher_that_fails_is_tried_again_and_a_hangup_does_not_wait(rig: Rig) -> None:
    """The pauses grow; a corrected launcher is started at once by a hangup, and serves what waited meanwhile."""
    rig.launch("raise SystemExit(3)")
    rig.start()
    failed = rig.until(lambda state: state["ends"] >= 2)
    assert failed["last_end"] == "exit code 3"
    with rig.connect() as client:
        rig.launch(WORKER, "good")
        rig.signal(signal.SIGHUP)
        assert client.makefile().read() == "good"
    assert rig.end() == 0


def test_a_launcher_that_is_not_there_is_told(rig: Rig) -> None:
    """Exit code 127, and a line in the log."""
    rig.start()
    rig.until(lambda state: state["last_end"] == "exit code 127")
    assert rig.end() == 0
    assert f"cannot start {rig.launcher}: No such file" in rig.log.read_text(encoding="utf-8")


STUBBORN = """
import os, signal, time
count = 0
def stop(*_):
    global count
    count += 1
    open({mark!r} + str(count), "w").close()
signal.signal(signal.SIGTERM, stop)
open({mark!r}, "w").close()
while count < {needs}:
    time.sleep(0.01)
raise SystemExit(5)
"""


@pytest.mark.parametrize("needs", [2, 99], ids=["second", "never"])
def test_a_worker_that_does_not_end_is_hurried(rig: Rig, needs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time it gets a second SIGTERM, and at last SIGKILL."""
    mark = rig.folder / "up"
    rig.launch(STUBBORN.format(mark=str(mark), needs=needs))
    source = Path(holder.__file__).read_text(encoding="utf-8").replace("HURRY_WITHIN = 10.0", "HURRY_WITHIN = 0.1")
    copy = rig.folder / "copy.py"
    copy.write_text(source, encoding="utf-8")
    monkeypatch.setattr(holder, "__file__", str(copy))
    rig.start("--stop-wait", "0.1")
    rig.until(lambda _: mark.exists())
    assert rig.end() == (5 if needs == 2 else 137)


def test_a_second_signal_is_passed_on(rig: Rig) -> None:
    """A worker that wants two gets two; its exit code is the holder's."""
    mark = rig.folder / "up"
    rig.launch(STUBBORN.format(mark=str(mark), needs=2))
    rig.start()
    rig.until(lambda _: mark.exists())
    rig.signal(signal.SIGTERM)
    rig.until(lambda state: not state["listeners"] and Path(f"{mark}1").exists())  # two that wait are one to a process
    assert rig.end() == 5


def test_a_taken_address_is_waited_for(rig: Rig) -> None:
    """The worker of a killed holder lets it go soon; until then nothing is started."""
    rig.launch(WORKER, "one")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        rig.start(listen=f"127.0.0.1:{taken.getsockname()[1]}")
        deadline = time.monotonic() + 30
        while "is taken; waiting" not in rig.log.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not rig.state_file.exists()
    rig.until(lambda state: state["ready"])
    assert rig.end() == 0


def test_an_address_that_cannot_be_had_is_told() -> None:
    """At the end of the wait, or at once where waiting is no use; what was bound before is let go."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(holder.CannotListen, match=r"127\.0\.0\.1:\d+ \(nodes\)"),
    ):
        holder.bind([("openai", "127.0.0.1", 0), ("nodes", *taken.getsockname())], within=0.05)
    with pytest.raises(holder.CannotListen, match=r"192\.0\.2\.1"):
        holder.bind([("openai", "192.0.2.1", 0)])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--state", "s"],
        ["--state", "s", "--", "x"],
        ["--state", "s", "--listen", "a=127.0.0.1:0"],
        ["--state", "s", "--listen", "a=127.0.0.1", "--", "x"],
        ["--state", "s", "--listen", "a", "--", "x"],
    ],
)
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    """Nothing is bound or started."""
    with pytest.raises(SystemExit) as exited:
        holder.main(arguments)
    assert exited.value.code == 2


def test_a_worker_that_hangs_is_replaced(rig: Rig) -> None:
    """One that spoke and falls silent is killed, and who connected meanwhile is served by the next one."""
    living = WORKER.replace("while alive:", "while alive:\n    tell('WATCHDOG=1')")
    rig.launch(living, "one")
    rig.start("--watchdog", "1.5")
    first = rig.until(lambda state: state["ready"])
    os.kill(first["worker"], signal.SIGSTOP)
    host, port = first["listeners"]["openai"].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as waiting:
        later = rig.until(lambda state: state["number"] > 1 and state["ready"])
        assert waiting.recv(100) == b"one"
    assert (later["ends"], later["last_end"]) == (1, "signal 9 (SIGKILL)")
    assert "has given no sign of life for 1.5 s" in rig.log.read_text(encoding="utf-8")


def test_a_worker_that_never_spoke_of_life_is_left_alone(rig: Rig) -> None:
    """It may be a program that knows nothing of it."""
    rig.launch(WORKER, "one")
    rig.start("--watchdog", "0.3")
    state = rig.until(lambda state: state["ready"])
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        assert rig.state["worker"] == state["worker"]
        time.sleep(0.05)
