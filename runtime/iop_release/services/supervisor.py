"""The service manager of loopback environments: one supervisord per environment, programs added one by one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Callable, Sequence
from pathlib import Path

from iop_release import processes
from iop_release.errors import ReleaseError
from iop_release.services import supervisor_conf as conf
from iop_release.services.contract import Running, Service
from iop_release.services.held import Held
from iop_release.services.launcher import Launchers
from iop_release.services.supervisor_rpc import BAD_NAME, NOT_RUNNING, SupervisorRpc, Unreachable

UP_WITHIN = 20.0  # seconds for supervisord to answer on its socket
DOWN_WITHIN = 60.0  # seconds for all programs to finish or be cut, which `stopwaitsecs` (40 s) bounds
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ")  # reaches services
_STATES = {"RUNNING": "running", "STARTING": "running", "STOPPED": "stopped", "STOPPING": "stopped", "EXITED": "failed"}


class Supervisor:
    """supervisord of the environment whose build folder is `home`."""

    def __init__(self, home: Path, python: str = sys.executable) -> None:
        self._home = home.absolute()
        self._folder = self._home / "supervisor"
        self._conf = self._folder / "supervisord.conf"
        self._programs = self._folder / "programs"
        self._python = python

    def running(self) -> dict[str, Running]:
        """All programs it knows, by name; empty when it is not up."""
        return {name: self._held(name).running(one) for name, one in self._programs_known().items()}

    def obstacles(self, wanted: Sequence[Service]) -> list[str]:  # noqa: ARG002 - the contract's signature
        """None: nothing here wants root."""
        return []

    def ensure(self) -> None:
        """Bring supervisord up. What it lost (it was killed; its programs were not) is ended first."""
        if not self._answers():
            self._end_daemons()
            self._end_orphans()
            self._start_daemon()
        else:
            self._end_orphans()

    def stop(self, name: str) -> None:
        """Stop a program and wait until it is gone."""
        try:
            self._rpc(timeout=DOWN_WITHIN + 30).call("stopProcess", name)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode not in (NOT_RUNNING, BAD_NAME):
                raise ReleaseError(f"supervisor cannot stop {name}: {fault.faultString}") from fault
        except Unreachable:
            self._end_orphans()

    def start(self, service: Service, log: Path) -> Running:
        """Install this definition, start it, and return when it has stayed up for a second.

        One with `listeners` runs behind a holder, which stays as long as it and the addresses do.
        """
        if not service.listeners:
            return self._start(service, log)
        held = self._held(service.name)
        program = held.program(service)
        held.install(service)
        holder, before = self._programs_known().get(service.name), held.state()
        same = self._text(service.name) == conf.program_text(program, log)
        if holder is not None and holder.pid is not None and before is not None and same:
            self._rpc().call("signalProcess", service.name, "HUP")
        else:
            self.stop(service.name)
            holder, before = self._start(program, log), None
        return held.wait(holder, before, lambda: f"the end of {log}:\n{tail(log)}")

    def _start(self, service: Service, log: Path) -> Running:
        self._programs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file(service.name).write_text(conf.program_text(service, log), encoding="utf-8")
        rpc = self._rpc()
        self._load(rpc, service.name)
        try:
            rpc.call("startProcess", service.name)
        except xmlrpc.client.Fault as fault:
            self.stop(service.name)
            raise ReleaseError(
                f"{service.name} does not stay up ({fault.faultString}); the end of {log}:\n{tail(log)}"
            ) from fault
        return _running(rpc.call("getProcessInfo", service.name))

    def remove(self, name: str) -> None:
        """Stop a program and forget it."""
        self._file(name).unlink(missing_ok=True)
        self.stop(name)
        try:
            self._rpc().call("removeProcessGroup", name)
        except (Unreachable, xmlrpc.client.Fault):
            return  # not up, or it never knew the program

    def down(self) -> list[str]:
        """Stop all programs, supervisord, and what it lost; return what was ended."""
        ended = [f"{one.name} (pid {one.pid})" for one in self.running().values() if one.pid]
        try:
            self._rpc().call("shutdown")
        except (Unreachable, xmlrpc.client.Fault):
            pass  # nobody there: what it left behind is ended below
        else:
            _wait(lambda: not self._daemons(), DOWN_WITHIN)
        ended += self._end_daemons()
        ended += self._end_orphans()
        socket = self._socket()
        socket.unlink(missing_ok=True)
        if socket.parent.name.startswith("iop-") and socket.parent.is_dir():
            socket.parent.rmdir()
        return ended

    def _load(self, rpc: SupervisorRpc, name: str) -> None:
        """Let supervisord read its files again, and take over this program's new definition alone."""
        try:
            added, changed, _removed = rpc.call("reloadConfig")[0]
        except xmlrpc.client.Fault as fault:
            raise ReleaseError(f"supervisor cannot read its files: {fault.faultString}") from fault
        if name in changed:
            self.stop(name)
            rpc.call("removeProcessGroup", name)
        if name in changed or name in added:
            rpc.call("addProcessGroup", name)

    def _start_daemon(self) -> None:
        self._programs.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = conf.socket_folder(self._home)
        conf.make_private(folder)
        socket = folder / "supervisor.sock"
        socket.unlink(missing_ok=True)
        self._conf.write_text(conf.daemon_text(self._folder, socket), encoding="utf-8")
        done = subprocess.run(
            [self._python, "-m", "supervisor.supervisord", "-c", str(self._conf)],
            stdin=subprocess.DEVNULL,
            env={key: value for key, value in os.environ.items() if key in _KEPT},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not _wait(self._answers, UP_WITHIN):
            text = (done.stderr or done.stdout).strip() or tail(self._folder / "supervisord.log")
            raise ReleaseError(f"supervisord does not start:\n{text}")

    def _answers(self) -> bool:
        try:
            return bool(self._rpc(timeout=5).call("getState")["statename"] == "RUNNING")
        except (Unreachable, xmlrpc.client.Fault):
            return False

    def _daemons(self) -> list[processes.Process]:
        wanted = str(self._conf)
        return [one for one in processes.table() if wanted in one.argv and "supervisor.supervisord" in one.argv]

    def _end_daemons(self) -> list[str]:
        """End supervisords of this environment that do not answer (their socket was swept away, or they hang)."""
        found = self._daemons()
        for one in found:
            if not processes.end(one, within=DOWN_WITHIN):
                raise ReleaseError(f"supervisord (pid {one.pid}) does not end", f"kill -9 {one.pid}")
        return [f"supervisord (pid {one.pid})" for one in found]

    def _end_orphans(self) -> list[str]:
        everyone = processes.table()
        known = [one.pid for one in self._programs_known().values() if one.pid]
        lost = processes.without_family(processes.services_under(self._home, everyone), known, everyone)
        for one in lost:
            if not processes.end(one, within=5.0):
                raise ReleaseError(f"a left-over of ours does not end: pid {one.pid} ({one.shown})")
        return [f"left-over pid {one.pid} ({one.shown})" for one in lost]

    def _socket(self) -> Path:
        """Where the running supervisord listens: as its own file says, for the temp folder may differ today."""
        try:
            found = re.search(r"^file = (.+)$", self._conf.read_text(encoding="utf-8"), re.MULTILINE)
        except OSError:
            found = None
        if found:
            return Path(found[1].replace("%%", "%"))
        return conf.socket_folder(self._home) / "supervisor.sock"

    def _rpc(self, timeout: float = 90.0) -> SupervisorRpc:
        return SupervisorRpc(self._socket(), timeout)

    def _file(self, name: str) -> Path:
        return self._programs / f"{name}.conf"

    def _text(self, name: str) -> str | None:
        file = self._file(name)
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def _held(self, name: str) -> Held:
        return Held(name, self._folder / "held", Launchers(self._home), self._home, self._python)

    def _programs_known(self) -> dict[str, Running]:
        """What supervisord itself knows: of a service with listeners, the holder."""
        try:
            found = self._rpc().call("getAllProcessInfo")
        except Unreachable:
            return {}
        return {one["name"]: _running(one) for one in found}


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, indented; a note when there are none."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    except OSError:
        text = []
    return "\n".join(f"  | {line}" for line in text) or "  | (nothing was logged)"


def _running(info: dict[str, object]) -> Running:
    state = _STATES.get(str(info["statename"]), "failed")
    pid = int(str(info["pid"])) or None
    return Running(str(info["name"]), state, pid, str(info.get("spawnerr") or info["statename"]).lower())


def _wait(done: Callable[[], bool], within: float) -> bool:
    """Poll a condition until it is true; False after `within` seconds."""
    deadline = time.monotonic() + within
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
