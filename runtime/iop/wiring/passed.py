"""Listening sockets that somebody else opened and that outlive this process (systemd's socket activation).

`LISTEN_FDS` descriptors from 3 on, named by `LISTEN_FDNAMES`, are for the process whose id is `LISTEN_PID`. systemd
passes those of a socket unit, `iop_release.holder` its own; a connection that comes while no Edge runs waits in them.
"""

import errno
import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass, field

from iop.transport.listening import join_address

FIRST = 3
#: the name of a pipe from the parent, whose end of file is the parent's death
LIFELINE = "lifeline"
_VARIABLES = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")


class WrongSocket(Exception):
    """What was passed is not what the config asks for; the text says what to change."""


@dataclass(frozen=True)
class Passed:
    """Sockets by name, and the pipe from the parent, if there is one."""

    sockets: dict[str, socket.socket] = field(default_factory=dict)
    lifeline: int | None = None

    @classmethod
    def take(cls, environ: MutableMapping[str, str], names: frozenset[str]) -> "Passed":
        """Take what was passed to this process, and remove the variables; no child inherits variable or socket.

        Raises WrongSocket for what has none of `names`, one name twice, and what is no listening TCP socket.
        """
        count, pid, told = (environ.pop(name, "") for name in _VARIABLES)
        if pid != str(os.getpid()) or not (count.isascii() and count.isdigit()):
            return cls()
        given = told.split(":") if told else []
        given += ["unknown"] * (int(count) - len(given))
        sockets: dict[str, socket.socket] = {}
        lifeline = None
        for number, name in enumerate(given[: int(count)], FIRST):
            if name == LIFELINE:
                os.set_inheritable(number, False)  # noqa: FBT003 - positional only
                lifeline = number
                continue
            if name not in names or name in sockets:
                why = "came twice" if name in sockets else f"is none of {', '.join(sorted(names))}"
                raise WrongSocket(f"descriptor {number} was passed as {name!r}, which {why}; correct LISTEN_FDNAMES")
            sockets[name] = _listening(number, name)
        return cls(sockets, lifeline)

    def pick(self, name: str, host: str, port: int) -> socket.socket | None:
        """The socket of that name, None when none was passed.

        Raises WrongSocket when it listens elsewhere than on `host:port` (port 0 = any): where one may listen is a
        matter of safety, and is checked in the config.
        """
        sock = self.sockets.get(name)
        if sock is None:
            return None
        there = sock.getsockname()
        if port not in {0, there[1]} or str(there[0]) not in _addresses(host):
            raise WrongSocket(
                f"the socket passed as {name!r} listens on {join_address(str(there[0]), there[1])}, but the config "
                f"says listen.{name}: {join_address(host, port)}; correct one of them (what passes the socket must be "
                "restarted for another address)"
            )
        return sock


def _listening(number: int, name: str) -> socket.socket:
    try:
        os.set_inheritable(number, False)  # noqa: FBT003 - positional only
        sock = socket.socket(fileno=number)
    except OSError as error:
        raise WrongSocket(f"descriptor {number} ({name}) is no socket: {os.strerror(error.errno or 0)}") from error
    if sock.type != socket.SOCK_STREAM or sock.family not in {socket.AF_INET, socket.AF_INET6} or not _accepts(sock):
        raise WrongSocket(f"descriptor {number} ({name}) is no listening TCP socket")
    sock.settimeout(0)
    return sock


def _accepts(sock: socket.socket) -> bool:
    try:
        return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:  # macOS does not tell
            return True
        raise


def _addresses(host: str) -> set[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return {host}
    return {host, *(str(address[0]) for *_, address in found)}
