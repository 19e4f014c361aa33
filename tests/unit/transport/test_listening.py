"""Addresses, and the owner of a busy port."""

import errno
import os
import socket
from pathlib import Path

import pytest

from iop.transport.listening import (
    PortBusy,
    command_name,
    join_address,
    listening,
    lsof_owner,
    netstat_owner,
    port_owner,
    split_address,
)


@pytest.mark.parametrize(
    ("text", "parts"), [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:80", ("::1", 80)), ("host:65535", ("host", 65535))]
)
def test_addresses_round_trip(text: str, parts: tuple[str, int]) -> None:
    """host:port is read and written the same, IPv6 in brackets."""
    assert split_address(text) == parts
    assert join_address(*parts) == text


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:70000", "host:-1"])
def test_bad_addresses(text: str) -> None:
    """Anything but host:port is a ValueError that shows it."""
    with pytest.raises(ValueError, match="not a host:port address"):
        split_address(text)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the kernel's tables")
def test_port_owner_on_linux() -> None:
    """The owner of a listening socket is this process; a free port has none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        owner = port_owner(port)
    assert owner is not None
    assert owner.startswith(f"pid {os.getpid()} (")
    assert port_owner(port) is None


def test_listening_passes_other_refusals_with_their_address() -> None:
    """A refusal that is not a busy port keeps its errno and names the address."""
    with (
        pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:1: no such address") as caught,
        listening("192.0.2.1", 1),
    ):
        raise OSError(errno.EADDRNOTAVAIL, "no such address")
    assert caught.value.errno == errno.EADDRNOTAVAIL


def test_listening_without_a_visible_owner() -> None:
    """A busy port whose owner cannot be seen is still told by its address."""
    with (
        pytest.raises(PortBusy, match=r"port 127\.0\.0\.1:1 is busy: held by another process") as caught,
        listening("127.0.0.1", 1),
    ):
        raise OSError(10048, "in use")
    assert caught.value.owner is None


def test_lsof_and_netstat_answers() -> None:
    """The tools of macOS and Windows are read as they print."""
    assert lsof_owner("p412\ncPython\nf7\n") == "pid 412 (Python)"
    assert lsof_owner("") is None
    table = "  TCP    0.0.0.0:180      0.0.0.0:0   LISTENING   4\n  TCP    127.0.0.1:18083  0.0.0.0:0   ABHÖREN   77\n"
    assert netstat_owner(table, 18083) == "pid 77"
    assert netstat_owner(table, 83) is None


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["/x/python3", "-m", "iop.commands.edge", "--token", "s3cret"], "python3 -m iop.commands.edge"),
        (["/x/python3", "/x/bin/edge", "--config", "f"], "python3 edge"),
        (["nginx", "s3cret"], "nginx"),
        (["/x/serve", "-m", "s3cret", "--port", "1"], "serve"),
        (["serve: worker --api-key=s3/cret"], "serve: worker"),
        ([], "?"),
    ],
)
def test_commands_are_named_without_arguments(argv: list[str], name: str) -> None:
    """Only the program and its module or script are told, since arguments may hold secrets."""
    assert command_name(argv) == name
