"""The life of a serving process: ready line, signals, drain, stop, exit codes."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iop.transport.listening import listening
from iop.wiring import serve as serve_module
from iop.wiring.notify import Notifier
from iop.wiring.serve import serve

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Recorder:
    """A service that notes its calls; hooks stand in for what start and drain would do."""

    def __init__(self, on_start: Callable[[], None] = lambda: None, *, drain_forever: bool = False) -> None:
        self.calls: list[str] = []
        self._on_start = on_start
        self._drain_forever = drain_forever
        self.failure: Exception | None = None

    async def start(self) -> str:
        self.calls.append("start")
        if self.failure is not None:
            raise self.failure
        asyncio.get_running_loop().call_soon(self._on_start)
        return "ready test=1"

    async def drain(self) -> None:
        self.calls.append("drain")
        if self._drain_forever:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    async def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture(autouse=True)
def hearing() -> Iterator[None]:
    """Undo the deafness of a process that exits, since these processes go on."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number in before:
        signal.signal(number, signal.SIG_IGN)  # drops what is pending
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: signal.Signals) -> Callable[[], None]:
    """Make a hook that sends this process a signal."""
    return lambda: os.kill(os.getpid(), number)


def run(service: Recorder, level: str = "info") -> int:
    """Serve `service` to its end."""
    return serve(lambda: service, log_level=level, log_format="text")


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_drains_then_stops(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    """One SIGTERM or SIGINT drains, stops and exits 0; stdout holds the ready line alone."""
    service = Recorder(send(number))
    assert run(service) == 0
    assert service.calls == ["start", "drain", "stop"]
    assert capsys.readouterr().out == "ready test=1\n"


def test_a_second_signal_cuts_the_drain() -> None:
    """A second SIGTERM ends a drain that would wait for ever, and the exit code is still 0."""
    service = Recorder(send(signal.SIGTERM), drain_forever=True)
    assert run(service) == 0
    assert service.calls == ["start", "drain", "stop"]


def test_a_signal_during_start_stops_without_ready_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A signal that comes before the service is up cuts the start and still frees everything."""

    class Slow(Recorder):
        async def start(self) -> str:
            self.calls.append("start")
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
            return "never"

    service = Slow()
    assert run(service) == 0
    assert service.calls == ["start", "stop"]
    assert capsys.readouterr().out == ""


def test_windows_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case B46: where add_signal_handler is missing, signals still drain and stop the process."""

    class NoSignals(asyncio.SelectorEventLoop):
        def add_signal_handler(self, *_: object) -> None:  # type: ignore[override]
            raise NotImplementedError

    monkeypatch.setattr(serve_module, "_loop_factory", lambda: NoSignals)
    service = Recorder(send(signal.SIGTERM))
    assert run(service) == 0
    assert service.calls == ["start", "drain", "stop"]


def test_port_busy_names_port_and_owner(capsys: pytest.CaptureFixture[str]) -> None:
    """A taken port exits 1 with one line that names the port, its owner and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        class Binder(Recorder):
            async def start(self) -> str:
                with listening("127.0.0.1", port):
                    await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", port)
                return "never"

        service = Binder()
        assert run(service) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert f"127.0.0.1:{port}" in err
    assert f"pid {os.getpid()}" in err
    assert "stop that process or choose another listen address" in err
    assert service.calls == ["stop"]


@pytest.mark.parametrize(("level", "traceback"), [("info", False), ("debug", True)])
def test_other_start_failures(level: str, traceback: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Any other failure to start is one clear line and exit 1; the traceback shows at level debug only."""
    service = Recorder()
    service.failure = ValueError("the token file is\nnot there; Bearer abc")
    assert run(service, level) == 1
    err = capsys.readouterr().err
    assert "error: the token file is not there; Bearer [redacted]\n" in err
    assert ("Traceback" in err) is traceback


def test_a_factory_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """A service that cannot be built is a start failure too."""

    def factory() -> Recorder:
        raise OSError("no such folder")

    assert serve(factory, log_level="info", log_format="text") == 1
    assert capsys.readouterr().err == "error: no such folder\n"


def test_a_stop_that_hangs_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop that never returns does not keep the process."""

    class Hanging(Recorder):
        async def stop(self) -> None:
            self.calls.append("stop")
            await asyncio.Event().wait()

    monkeypatch.setattr(serve_module, "STOP_WITHIN", 0.01)
    assert run(Hanging(send(signal.SIGTERM))) == 0


def test_signals_while_exiting_do_not_change_the_exit_code() -> None:
    """SIGTERMs that rain on a stopping process never turn its exit code 0 into a death by signal."""
    code = (
        "import sys\nfrom iop.wiring.serve import serve\n"
        "class S:\n"
        "    async def start(self): return 'ready rain=1'\n"
        "    async def drain(self): pass\n"
        "    async def stop(self): pass\n"
        "sys.exit(serve(S, log_level='info', log_format='json'))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(serve_module.__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready rain=1\n"
        done = threading.Event()

        def rain() -> None:
            while not done.wait(0.001) and child.poll() is None:
                child.send_signal(signal.SIGTERM)

        thread = threading.Thread(target=rain)
        thread.start()
        code_seen = child.wait(30)
        done.set()
        thread.join()
        child.communicate()
    assert code_seen == 0


class Told(Notifier):
    """Notes what the manager would be told."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def ready(self, status: str) -> None:
        self.words.append(f"ready: {status}")

    def stopping(self, status: str) -> None:
        self.words.append(f"stopping: {status}")


def test_the_service_manager_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready with the ready line, then stopping; the variables of the manager do not outlive the start."""
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere")
    told = Told()
    service = Recorder(send(signal.SIGTERM))
    assert serve(lambda: service, log_level="info", log_format="text", notifier=told) == 0
    assert told.words == ["ready: ready test=1", "stopping: finishing what runs"]
    assert run(Recorder(send(signal.SIGTERM))) == 0
    assert "NOTIFY_SOCKET" not in os.environ


def test_the_death_of_the_parent_is_a_signal() -> None:
    """The end of the parent's pipe drains and stops, as SIGTERM does."""
    reading, writing = os.pipe()
    service = Recorder(lambda: os.close(writing))
    assert serve(lambda: service, log_level="info", log_format="text", lifeline=reading) == 0
    os.close(reading)
    assert service.calls == ["start", "drain", "stop"]
