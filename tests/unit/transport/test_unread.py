"""What a process has not read yet."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from iop.transport.unread import is_readable


@pytest.fixture
async def pair() -> AsyncIterator[tuple[asyncio.Transport, socket.socket]]:
    """A transport whose loop reads nothing, and its peer."""
    near, far = socket.socketpair()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=near)
    transport.pause_reading()
    with contextlib.closing(far):
        yield transport, far
    transport.abort()


async def test_nothing_is_nothing(pair: tuple[asyncio.Transport, socket.socket]) -> None:
    """A silent peer."""
    assert not is_readable(pair[0])


async def test_bytes_that_wait_are_seen(pair: tuple[asyncio.Transport, socket.socket]) -> None:
    """Also those that the loop has not been told of."""
    pair[1].send(b"x")
    assert is_readable(pair[0])


async def test_an_end_that_waits_is_seen(pair: tuple[asyncio.Transport, socket.socket]) -> None:
    """A peer that has closed."""
    pair[1].shutdown(socket.SHUT_WR)
    assert is_readable(pair[0])


async def test_a_closed_transport_has_nothing(pair: tuple[asyncio.Transport, socket.socket]) -> None:
    """Its socket is gone."""
    pair[0].abort()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not is_readable(pair[0])
