"""Connect to HOST PORT from inside the lab's network: `relay.py [--pass-fd] HOST PORT` (run by lab.sh and by OpenSSH).

With `--pass-fd` the open socket itself is handed to the ssh client (its `ProxyUseFdpass`), and no process stays between
the two. Without it, this process copies between the socket and its own stdin and stdout, each direction to its end.
Exit code 1, with a sentence, when nothing answers within 5 seconds.
"""

import os
import socket
import sys
import threading

PATIENCE = 5.0
BLOCK = 65536


def main(arguments: list[str]) -> int:
    """Connect, then hand over or copy."""
    passing = arguments[:1] == ["--pass-fd"]
    host, port = arguments[-2:]
    try:
        peer = socket.create_connection((host, int(port)), timeout=PATIENCE)
    except OSError as error:
        print(f"lab: {host}:{port} does not answer ({error}): see lab.sh status", file=sys.stderr)
        return 1
    peer.settimeout(None)
    if passing:
        with socket.socket(fileno=os.dup(1)) as client:
            socket.send_fds(client, [b"\0"], [peer.fileno()])
        return 0
    copy(peer)
    return 0


def copy(peer: socket.socket) -> None:
    """Stdin to the peer, the peer to stdout; the end of stdin is told to the peer, the peer's end ends the copy."""
    threading.Thread(target=send, args=(peer,), daemon=True).start()
    while block := peer.recv(BLOCK):
        write(block)


def send(peer: socket.socket) -> None:
    """Stdin, whatever kind of file it is, to the peer."""
    while block := os.read(0, BLOCK):
        peer.sendall(block)
    peer.shutdown(socket.SHUT_WR)


def write(block: bytes) -> None:
    """All of the block to stdout."""
    left = memoryview(block)
    while left:
        left = left[os.write(1, left) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
