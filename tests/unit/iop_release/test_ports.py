"""iop_release.ports: whether a port can be had, and who holds it."""

import os
import socket

import pytest

from iop_release import ports
from iop_release.errors import ReleaseError
from iop_release.processes import Process


def test_a_taken_port_names_its_owner() -> None:
    """A listening port is not free, and its owner is this process; once closed it is free again."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]

        assert not ports.is_free("127.0.0.1", port)
        owner = ports.owner(port)
        assert owner is not None
        assert owner.pid == os.getpid()
    assert ports.is_free("127.0.0.1", port)
    assert ports.owner(port) is None


def test_a_listener_on_all_addresses_takes_loopback_too() -> None:
    """A stranger on 0.0.0.0 is in the way of 127.0.0.1."""
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()

        assert not ports.is_free("127.0.0.1", listener.getsockname()[1])


@pytest.mark.parametrize("powershell", [True, False])
def test_windows_asks_its_own_tools(monkeypatch: pytest.MonkeyPatch, powershell: bool) -> None:
    """The owner is told by its pid at least, where the process table cannot be read."""

    def read(pid: int) -> Process | None:
        if not powershell:
            raise ReleaseError("no PowerShell")
        return Process(pid, 1, ("x",)) if pid == 7 else None

    monkeypatch.setattr(ports, "WINDOWS", True)
    monkeypatch.setattr(ports.windows, "listener", {1: 7, 2: 8}.get)
    monkeypatch.setattr(ports.processes, "read", read)

    found = [ports.owner(port) for port in (1, 2, 3)]

    assert [one.pid if one else None for one in found] == [7, 8, None]
    assert [one.shown if one else None for one in found][:2] == (
        ["x", "(not to be seen)"] if powershell else ["(not to be seen)"] * 2
    )
