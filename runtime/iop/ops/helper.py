"""The release helper of this checkout, run on a host: it travels along and works before anything is deployed."""

import json
from dataclasses import dataclass
from typing import Any

from iop.admin.ssh_trouble import SshTrouble
from iop.config.inventory import Inventory
from iop.ops.shell import Ran, Shell
from iop_release import app

#: takes the package from standard input, says the host's time, runs it and leaves nothing behind
_CARRIER = (
    "import os,runpy,sys,tempfile,time;"
    "f=tempfile.TemporaryDirectory();p=os.path.join(f.name,'iop_release.pyz');"
    "w=open(p,'wb');w.write(sys.stdin.buffer.read());w.close();"
    "print('clock=%r'%time.time(),file=sys.stderr,flush=True);"
    "sys.argv[0]=p;runpy.run_path(p,run_name='__main__')"
)


@dataclass(frozen=True, slots=True)
class Told:
    """The helper's JSON object, and how far the host's clock is off at least (seconds, 0 when it may be right)."""

    data: dict[str, Any]
    clock_off_s: float


class Helper:
    """The helper on one host."""

    def __init__(self, inventory: Inventory, name: str) -> None:
        self._shell = Shell(inventory, name)
        host = self._shell.host
        self._root = str(inventory.host_root(name))
        self._home = self._root if host.remote else str(inventory.home)
        self._manager = host.service_manager

    def status(self) -> Told:
        """What the host runs: `current`, `previous`, `staged`, `services`. Raises `SshTrouble`."""
        return self._ask("status", "--root", self._root, "--home", self._home, *self._managed())

    def preflight(self, addresses: list[str]) -> Told:
        """What is in the way there: `findings`. `addresses` (`host:port`) must be free or ours. Raises `SshTrouble`."""
        ports = [part for one in addresses for part in ("--port", one)]
        return self._ask("preflight", "--home", self._home, *self._managed(), *ports)

    def _managed(self) -> list[str]:
        return [] if self._manager == "supervisor" else ["--manager", self._manager]

    def _ask(self, *arguments: str) -> Told:
        ran = self._shell.run([self._shell.python, "-I", "-c", _CARRIER, *arguments, "--json"], app.packed())
        try:
            data = json.loads(ran.stdout[max(ran.stdout.find("{"), 0) :])  # the account's shell may say something first
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise self._failure(ran)
        return Told(data, _clock_off(ran))

    def _failure(self, ran: Ran) -> SshTrouble:
        host, lines = self._shell.host, [one for one in ran.stderr.splitlines() if not one.startswith("clock=")]
        said = lines[-1].strip() if lines else f"exit code {ran.code}"
        if ran.code == 127 or "not found" in said or "No such file" in said or "not recognized" in said:
            step = f"Install Python 3.11 or newer on {host.name}, or correct `python` in its connection.yml"
            return SshTrouble("other", f"{host.name} has no {self._shell.python}: {said}", step)
        return SshTrouble("other", f"the release helper failed on {host.name}: {said}", f"Try: {self._by_hand()}")

    def _by_hand(self) -> str:
        return f"{self._shell.python} --version on {self._shell.host.name}"


def _clock_off(ran: Ran) -> float:
    """How far the host's clock is ahead (+) or behind (-), as far as it is certain: the call itself took time."""
    said = [line.removeprefix("clock=") for line in ran.stderr.splitlines() if line.startswith("clock=")]
    try:
        theirs = float(said[0])
    except (IndexError, ValueError):
        return 0.0
    if theirs > ran.ended:
        return theirs - ran.ended
    return min(0.0, theirs - ran.started)
