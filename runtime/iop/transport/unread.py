"""Whether a connection has something that this process has not read yet."""

import asyncio
import select


def is_readable(transport: asyncio.BaseTransport) -> bool:
    """Return whether the kernel has bytes (or an end) of the peer that nobody has read yet.

    False also where that cannot be known: Windows has no `poll`, and passes no sockets.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0 or not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))
