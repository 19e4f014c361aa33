"""A node's process on its host, for cases that take it away: killed, or held still for a while.

Only what the deploying account may signal. A process that is held is let go by its own host: when this side says so,
when this side is gone, and after `HELD_AT_MOST_S` in any case.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from iop.admin.ssh_trouble import SshTrouble
from iop.config.inventory import Inventory
from iop.ops.helper import Helper
from iop.ops.shell import Shell

HELD_AT_MOST_S = 90.0
#: seconds for a host to answer, login included
PATIENCE_S = 30.0
_SIGNAL = "import os,sys; os.kill(int(sys.argv[1]), int(sys.argv[2]))"
_HOLD = """
import os, select, signal, sys
def leave(*_):
    sys.exit(1)
for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(one, leave)
process = int(sys.argv[1])
try:
    os.kill(process, signal.SIGSTOP)
    print('held', flush=True)
    select.select([sys.stdin], [], [], float(sys.argv[2]))
finally:
    os.kill(process, signal.SIGCONT)
"""
_NONE, _KILL = 0, 9


class NoGrip(Exception):
    """No node's process can be signalled; the text says why, host by host."""


@dataclass(frozen=True, slots=True)
class Grip:
    """One node's process that this account may signal."""

    shell: Shell
    node_id: str
    pid: int

    def kill(self) -> None:
        """SIGKILL, as a crash: its service manager has to bring it back. Raises `SshTrouble`, `NoGrip`."""
        _signal(self.shell, self.pid, _KILL)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold it still: to everybody else its link is silent. Raises `NoGrip` when it cannot be held."""
        argv = self.shell.command([self.shell.python, "-I", "-c", _HOLD, str(self.pid), str(HELD_AT_MOST_S)])
        pipe = asyncio.subprocess.PIPE
        # a session of its own: Ctrl-C is for us, and we end it
        holder = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            said = await asyncio.wait_for(holder.stdout.readline(), PATIENCE_S)
            if said.strip() == b"held":
                yield
                return
        finally:
            holder.stdin.close()
            _, stderr = await asyncio.wait_for(holder.communicate(), PATIENCE_S)
        raise NoGrip(f"{self.node_id} cannot be held: {_last_line(stderr.decode('utf-8', 'replace'))}")


def find(inventory: Inventory) -> Grip:
    """The process of the node with most slots of those that can be signalled. Raises `NoGrip`."""
    reasons = []
    hosts = sorted(inventory.hosts, key=lambda host: -sum(provider.capacity for provider in host.providers))
    for host in hosts:
        if host.windows:
            reasons.append(f"{host.name}: Windows has no signals")
            continue
        shell = Shell(inventory, host.name)
        try:
            pid = _pid(inventory, host.name)
            _signal(shell, pid, _NONE)
        except (NoGrip, SshTrouble) as error:
            reasons.append(f"{host.name}: {error}")
            continue
        return Grip(shell, host.node_id, pid)
    raise NoGrip("; ".join(reasons))


def _pid(inventory: Inventory, name: str) -> int:
    services = Helper(inventory, name).status().data.get("services", [])
    for pid in _pids(services, f"{name}.node"):
        return pid
    raise NoGrip(f"its service manager tells no process of {name}.node")


def _pids(services: list[dict[str, object]], name: str) -> Iterator[int]:
    yield from (one["pid"] for one in services if one["name"] == name and isinstance(one["pid"], int))


def _signal(shell: Shell, pid: int, number: int) -> None:
    ran = shell.run([shell.python, "-I", "-c", _SIGNAL, str(pid), str(number)], patience=PATIENCE_S)
    if ran.code != 0:
        raise NoGrip(f"this account may not signal process {pid}: {_last_line(ran.stderr)}")


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2] or "no reason told"
