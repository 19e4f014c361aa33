"""Running one program on a host: here, or through ssh, with an end to waiting and failures in words."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from iop.admin.ssh import door, environment
from iop.admin.ssh_trouble import FAILED, SshTrouble, late, no_program, trouble
from iop.config.inventory import Inventory

#: seconds for one program on a host, login included
PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended, and when it was started and had ended (wall seconds of this machine)."""

    code: int
    stdout: str
    stderr: str
    started: float
    ended: float


class Shell:
    """One host. A host that is this machine is not logged in to."""

    def __init__(self, inventory: Inventory, name: str) -> None:
        self.host = inventory.host(name)
        self.python = sys.executable if self.host.here else str(self.host.python)
        self._door = None if self.host.here else door(inventory, name)

    def command(self, argv: Sequence[str], *options: str) -> list[str]:
        """What is run on this machine so that `argv` runs on the host; `options` are ssh's."""
        if self._door is None:
            return list(argv)
        # Windows: cmd.exe is what its ssh server starts; elsewhere a POSIX shell
        line = subprocess.list2cmdline(argv) if self.host.windows else shlex.join(argv)
        return [*self._door.argv("-T", *options), line]

    def run(self, argv: Sequence[str], stdin: bytes = b"", patience: float = PATIENCE_S) -> Ran:
        """Run a program on the host. Raises `SshTrouble` when the host cannot be reached or does not end in time."""
        started = time.time()
        env = {**os.environ, "LC_ALL": "C"} if self._door is None else environment()
        try:
            done = subprocess.run(  # noqa: S603 - a list, no shell of this machine
                self.command(argv), input=stdin, capture_output=True, timeout=patience, env=env, check=False
            )
        except FileNotFoundError as error:
            if self._door is not None:
                raise no_program() from error
            return Ran(127, "", f"{error.filename} is not on this machine", started, time.time())
        except subprocess.TimeoutExpired as error:
            if self._door is not None:
                raise late(self._door, patience) from error
            raise SshTrouble("other", f"{argv[0]} did not end within {patience:.0f} s", "Try again") from error
        stdout, stderr = (raw.decode("utf-8", "replace") for raw in (done.stdout, done.stderr))
        if self._door is not None and done.returncode == FAILED:
            raise trouble(self._door, stderr)
        return Ran(done.returncode, stdout, stderr, started, time.time())
