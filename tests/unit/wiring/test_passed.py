"""Sockets that were passed to this process, as systemd passes them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from iop.wiring.passed import Passed, WrongSocket

ROOT = Path(__file__).parents[3]
NAMES = "frozenset({'openai', 'nodes', 'admin'})"
#: sits between the test and the code: makes the descriptors 3, 4, … of what the test gave, and its own LISTEN_PID
SHOW = f"""
import os, sys
from iop.wiring.passed import Passed, WrongSocket
os.environ["LISTEN_PID"] = os.environ["LISTEN_PID"].replace("me", str(os.getpid()))
try:
    passed = Passed.take(os.environ, {NAMES})
except WrongSocket as error:
    sys.exit(str(error))
kept = [sock.fileno() for sock in passed.sockets.values() if os.get_inheritable(sock.fileno())]
left = [name for name in os.environ if name.startswith("LISTEN_")]
print(*(f"{{n}}={{s.getsockname()[1]}}" for n, s in passed.sockets.items()), passed.lifeline, kept, left)
"""


def _taken(descriptors: list[int], names: str, *, pid: str = "me", count: str = "") -> subprocess.CompletedProcess[str]:
    moves = "".join(f"os.dup2({fd}, {100 + n}); " for n, fd in enumerate(descriptors))
    moves += "".join(f"os.dup2({100 + n}, {3 + n}); " for n in range(len(descriptors)))
    code = f"import os; {moves}os.execv({sys.executable!r}, [{sys.executable!r}, '-c', {SHOW!r}])"
    told = {"LISTEN_FDS": count or str(len(descriptors)), "LISTEN_PID": pid, "LISTEN_FDNAMES": names}
    environ = {**os.environ, **told, "PYTHONPATH": str(ROOT / "runtime")}
    return subprocess.run(
        [sys.executable, "-c", code], env=environ, pass_fds=descriptors, capture_output=True, text=True, check=False
    )


def test_sockets_come_by_name_and_leave_no_trace() -> None:
    """Each by its name; neither variables nor sockets reach a child; the parent's pipe is told apart."""
    reading, writing = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        done = _taken([one.fileno(), reading, two.fileno()], "admin:lifeline:openai")
        told = f"admin={one.getsockname()[1]} openai={two.getsockname()[1]} 4 [] []\n"
    os.close(reading)
    os.close(writing)

    assert (done.stdout, done.returncode) == (told, 0), done.stderr


@pytest.mark.parametrize(("pid", "count"), [("1", ""), ("", ""), ("me", "x"), ("me", "-1")])
def test_what_is_for_somebody_else_is_left_alone(pid: str, count: str) -> None:
    """Another process id, or no number: nothing is taken, and the variables go all the same."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        done = _taken([one.fileno()], "openai", pid=pid, count=count)
    assert done.stdout == "None [] []\n"


@pytest.mark.parametrize(
    ("names", "kind", "told"),
    [
        ("web", "listener", "'web', which is none of admin, nodes, openai"),
        ("", "listener", "'unknown', which is none of"),
        ("openai:openai", "listener", "'openai', which came twice"),
        ("openai", "plain", "descriptor 3 (openai) is no listening TCP socket"),
        ("openai", "datagram", "descriptor 3 (openai) is no listening TCP socket"),
        ("openai", "file", "descriptor 3 (openai) is no socket"),
    ],
)
def test_what_cannot_be_used_is_refused(names: str, kind: str, told: str) -> None:
    """The message names the descriptor, what is wrong, and what is expected."""
    made = {
        "listener": lambda: socket.create_server(("127.0.0.1", 0)),
        "plain": socket.socket,
        "datagram": lambda: socket.socket(type=socket.SOCK_DGRAM),
        "file": lambda: (ROOT / "README.md").open("rb"),
    }
    with made[kind]() as file:
        done = _taken([file.fileno()] * max(1, len(names.split(":"))), names)
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr


def test_a_socket_must_listen_where_the_config_says() -> None:
    """Port 0 fits any port, a name fits its addresses; another address or port is refused with both."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        passed = Passed({"openai": sock})
        assert passed.pick("nodes", "127.0.0.1", port) is None
        assert [passed.pick("openai", host, given) for host in ("127.0.0.1", "localhost") for given in (0, port)] == [
            sock
        ] * 4
        for host, given in (("127.0.0.1", port + 1), ("0.0.0.0", port), ("no.such.host.invalid", port)):
            with pytest.raises(WrongSocket, match=rf"listens on 127\.0\.0\.1:{port}, but .* listen\.openai: {host}:"):
                passed.pick("openai", host, given)
