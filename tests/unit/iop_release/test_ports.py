"""iop_release.ports: whether a port can be had, and who holds it."""

import os
import socket

from iop_release import ports


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
