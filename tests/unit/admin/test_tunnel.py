"""iop.admin.tunnel: one ssh process that forwards ports, through a scripted ssh."""

import contextlib
import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from iop.admin.ssh import Door
from iop.admin.ssh_trouble import SshTrouble
from iop.admin.tunnel import Tunnel
from tests.fakes import fake_ssh

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 60.0


class Hello(socketserver.BaseRequestHandler):
    """Greets and hangs up."""

    def handle(self) -> None:
        self.request.sendall(b"hello")


class Greeter(socketserver.ThreadingTCPServer):
    """Its connections end with it."""

    daemon_threads = True


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of PATH for the scripted ssh."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "bin"


@contextlib.contextmanager
def tunnel(folder: Path, behaviour: str) -> Iterator[Tunnel]:
    """A tunnel to a host that behaves so; closed at the end."""
    fake_ssh.install(folder, {"box": behaviour})
    made = Tunnel(Door("gx10", "box", "me"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def server() -> Iterator[int]:
    """The port of a server that answers each connection with `hello`."""
    with Greeter(("127.0.0.1", 0), Hello) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield made.server_address[1]
        made.shutdown()
        thread.join()


def _ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 30) as client:
        return client.recv(100)


def test_forwards_stand_when_open_returns_and_are_gone_after_close(folder: Path, server: int) -> None:
    """A connection works at once; after `close` nobody listens, and closing again is nothing."""
    with tunnel(folder, "ok") as made:
        near = made.open([server], PATIENCE)
        assert _ask(near[0]) == b"hello"
        assert made.alive
        made.close()
        made.close()

        assert not made.alive
        with pytest.raises(ConnectionRefusedError):
            _ask(near[0])


def test_a_port_that_is_taken_in_between_is_another_try(folder: Path, server: int) -> None:
    """It ends, new ports are chosen, and it stands."""
    with tunnel(folder, "busy-once") as made:
        assert _ask(made.open([server], PATIENCE)[0]) == b"hello"
        assert len(fake_ssh.calls(folder)) == 2


@pytest.mark.parametrize(("behaviour", "kind"), [("unknown-key", "unknown_key"), ("denied", "denied")])
def test_a_failure_is_told_in_words_at_once(folder: Path, behaviour: str, kind: str) -> None:
    """The reason is ssh's, read by `trouble`; nothing is tried again."""
    with tunnel(folder, behaviour) as made:
        with pytest.raises(SshTrouble, match="gx10") as caught:
            made.open([1], PATIENCE)
        assert caught.value.kind == kind
        assert len(fake_ssh.calls(folder)) == 1
        assert made.why(1) is None


def test_a_silent_host_costs_the_patience_and_no_more(folder: Path) -> None:
    """One that neither stands nor ends is given up, and ended."""
    with tunnel(folder, "silent") as made:
        with pytest.raises(SshTrouble, match="did not answer within 0 s"):
            made.open([1], 0.3)
        assert not made.alive


def test_a_machine_without_ssh_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SshTrouble, match="Install the OpenSSH client"):
        Tunnel(Door("gx10", "box")).open([1], PATIENCE)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [("ok", "nothing listens on 127.0.0.1:1 of gx10"), ("refuses-forwards", "set `AllowTcpForwarding yes`")],
)
def test_a_closed_port_of_the_host_is_explained(folder: Path, behaviour: str, words: str) -> None:
    """It is said on stderr while the connection through it is cut."""
    with tunnel(folder, behaviour) as made:
        near = made.open([1], PATIENCE)
        with contextlib.suppress(ConnectionError):
            assert _ask(near[0]) == b""

        why = made.why(1)
        assert why is not None
        assert words in why
        assert made.why(1) is None  # said once: it was about that call


def test_an_ssh_that_was_lost_is_explained(folder: Path) -> None:
    """The forward stood and its process ended: the reason is told."""
    with tunnel(folder, "ends") as made:
        made.open([1], PATIENCE)
        assert made._child is not None
        made._child.wait(30)

        assert "forward to gx10 was lost" in str(made.why(1))


def test_killing_its_owner_ends_it(folder: Path, server: int) -> None:
    """SIGKILL of the process that opened it closes the local port: nothing is left behind."""
    fake_ssh.install(folder, {"box": "ok"})
    owner = (
        "import time\nfrom iop.admin.ssh import Door\nfrom iop.admin.tunnel import Tunnel\n"
        f"made = Tunnel(Door('gx10', 'box'))\nprint(made.open([{server}], 60)[0], flush=True)\ntime.sleep(3600)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "runtime")}
    with subprocess.Popen([sys.executable, "-c", owner], env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        near = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", near), 30) as held:
            assert held.recv(100) == b"hello"
            process.kill()
            process.wait(30)
            _until_refused(near)


def _until_refused(port: int) -> None:
    while True:
        try:
            _ask(port)
        except ConnectionError:
            with contextlib.suppress(ConnectionError):
                _ask(port)
                continue
            return
