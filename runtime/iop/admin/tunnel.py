"""One ssh process that forwards ports of this machine to one host, and ends with this process, however that ends."""

import contextlib
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from iop.admin.ssh import Door, environment
from iop.admin.ssh_trouble import late, no_program, trouble
from iop.config.inventory_hosts import LOOPBACK

TETHER = Path(__file__).with_name("tether.py")
READY = "iop-forwards-stand"
#: how often new ports are tried when a chosen one was taken in between
TRIES = 5
#: seconds that ssh's own words about a failed call may come after the call has failed
WORDS_S = 0.5
#: lines of ssh's words that are kept
KEPT = 200


class Tunnel:
    """Forwards to one host."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self._child: subprocess.Popen[str] | None = None
        self._heard = threading.Condition()
        self._said: list[str] = []  # what ssh said on stderr and `why` has not used yet
        self._stands = False
        self._open_streams = 0

    @property
    def alive(self) -> bool:
        """Whether the ssh process runs."""
        return self._child is not None and self._child.poll() is None

    def open(self, far: Sequence[int], patience: float) -> list[int]:
        """Forward free ports of this machine to these loopback ports of the host; return them once they stand.

        `patience` in seconds. Raises `SshTrouble`.
        """
        if shutil.which("ssh") is None:
            raise no_program()
        end = time.monotonic() + patience
        for left in reversed(range(TRIES)):
            near = _free_ports(len(far))
            self._start(near, far)
            with self._heard:
                self._heard.wait_for(lambda: self._stands or not self._open_streams, max(0.0, end - time.monotonic()))
                stands, ended = self._stands, not self._open_streams
            if stands:
                return near
            self.close()
            found = trouble(self.door, self._text()) if ended else late(self.door, patience)
            if found.kind != "port_busy" or not left:
                raise found
        raise AssertionError("the last try raises")

    def why(self, far: int) -> str | None:
        """Why a call through a forward failed, as far as ssh knows: it ended, or the host's port is closed."""
        if self._child is None:
            return None
        with self._heard:
            self._heard.wait_for(lambda: any("open failed" in line for line in self._said), WORDS_S)
            said = self._text()
            self._said.clear()
        if not self.alive:
            return f"the ssh forward to {self.door.name} was lost: {trouble(self.door, said)}"
        if "administratively prohibited" in said:
            return (
                f"the ssh server of {self.door.name} forbids forwards: set `AllowTcpForwarding yes` in its sshd_config"
            )
        if "open failed" in said:
            return f"nothing listens on {LOOPBACK}:{far} of {self.door.name}"
        return None

    def close(self) -> None:
        """End the process and wait for it: the tether ends ssh when its standard input ends."""
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        with contextlib.suppress(OSError):
            child.stdin.close()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _text(self) -> str:
        return "\n".join(self._said)

    def _start(self, near: Sequence[int], far: Sequence[int]) -> None:
        options = ["-N", "-T", "-o", "ExitOnForwardFailure=yes", "-o", "PermitLocalCommand=yes"]
        options += ["-o", f"LocalCommand=echo {READY}"]  # ssh runs it when every forward stands
        for here, there in zip(near, far, strict=True):
            options += ["-L", f"{LOOPBACK}:{here}:{LOOPBACK}:{there}"]
        child = subprocess.Popen(  # noqa: S603 - our own interpreter, and ssh
            [sys.executable, "-I", "-S", str(TETHER), *self.door.argv(*options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment(),
            start_new_session=True,  # Ctrl-C is for us: what is still under way needs its forwards
        )
        with self._heard:
            self._child, self._said, self._stands, self._open_streams = child, [], False, 2
        for stream in (child.stdout, child.stderr):
            assert stream is not None
            threading.Thread(target=self._listen, args=(child, stream), daemon=True).start()

    def _listen(self, child: "subprocess.Popen[str]", stream: IO[str]) -> None:
        """Take in what one stream of the process says, until it ends."""
        with stream:
            for line in stream:
                with self._heard:
                    if child is not self._child:
                        continue  # of an earlier try
                    if stream is child.stdout:
                        self._stands |= line.strip() == READY
                    else:
                        self._said = [*self._said, line.rstrip()][-KEPT:]
                    self._heard.notify_all()
        with self._heard:
            if child is self._child:
                self._open_streams -= 1
                self._heard.notify_all()


def _free_ports(count: int) -> list[int]:
    """Ports that nobody held a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in sockets]
