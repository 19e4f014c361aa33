"""The service manager of Windows hosts: scheduled tasks, so that nothing hangs on the ssh session that deploys.

Not run on a real Windows: tested over a stand-in for schtasks and taskkill with their exit codes.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iop_release import processes
from iop_release.errors import ReleaseError
from iop_release.processes import Process
from iop_release.services import names, tasks_xml, tool
from iop_release.services.contract import Running, Service, stop_all
from iop_release.services.definitions import STOP_MARGIN_S, Host, task
from iop_release.services.installed import obstacles
from iop_release.services.launcher import CMD, Launchers
from iop_release.services.logs import LOG_FILE, cut, last_words, output_of, tail

_READY = re.compile(r"^ready node=(\S+) status=(\S+)$")


@dataclass(frozen=True)
class Times:
    """Seconds: how long a program must live to count, how long it gets to appear, to go once killed, between looks."""

    steady: float = 1.0
    appear: float = 30.0
    vanish: float = 20.0
    between: float = 0.5


class WindowsTask:
    """The tasks of the host whose folder is `root`."""

    def __init__(
        self,
        root: Path,
        *,
        times: Times | None = None,
        table: Callable[[], list[Process]] = processes.table,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root = root.absolute()
        self._launchers = Launchers(self._root, CMD)
        self._times = times or Times()
        self._table = table
        self._sleep = sleep

    def running(self) -> dict[str, Running]:
        """The services that have a launcher here, known by their arguments: a task tells no process id."""
        known = self._launchers.services().values()
        everyone = self._table() if known else []
        return {name: _running(name, self._family(name, everyone)) for name in known}

    def obstacles(self, wanted: Sequence[Service]) -> list[str]:
        """What an administrator has to do first: tasks that are not registered, or registered otherwise."""
        found = obstacles(self._root, wanted)
        host = Host.stored(self._root)
        if found or host is None:
            return found
        return [
            text for name in sorted(host.services) for text in self._unlike(names.unit(name), task(host, name).text())
        ]

    def ensure(self) -> None:
        """Nothing to do: the Task Scheduler is there, or it is no Windows. Raises `ReleaseError`."""
        done = tool.call(["schtasks", "/Query", "/FO", "CSV", "/NH"], timeout=120)
        if done.code != 0:
            raise ReleaseError(f"the Task Scheduler does not answer: {done.text}")

    def start(self, service: Service, log: Path) -> Running:
        """Write its launcher and run its task; return when the program has stayed up for a second.

        What runs is stopped first: cmd.exe goes on reading a batch file that is replaced under it.
        """
        self.stop(service.name)
        unit = names.unit(service.name)
        output = output_of(self._root, unit)
        cut(output)
        ready = Service(service.name, service.argv, {**service.env, LOG_FILE: str(log), "PYTHONUTF8": "1"})
        self._launchers.write(ready, output)
        done = tool.call(["schtasks", "/Run", "/TN", unit], timeout=120)
        if done.code != 0:
            raise ReleaseError(f"the task {unit} cannot be run (exit code {done.code}): {done.text}", tool.BOOTSTRAP)
        found = self._settled(service.name)
        if found.pid is not None:
            return found
        self.stop(service.name)
        raise ReleaseError(f"{service.name} does not stay up; the end of {log}:\n{last_words(log, output)}")

    def stop(self, name: str) -> None:
        """Ask a node through its own port, then end the task, then whatever of it is left with its children."""
        family = self._family(name)
        if family and self._asked(name):
            self._wait(lambda: not self._family(name), self._patience(name))
        unit = names.unit(name)
        # whatever its exit code: a task that does not run, or is not there, is what is wanted
        tool.call(["schtasks", "/End", "/TN", unit], timeout=120)
        for one in self._family(name):
            tool.call(["taskkill", "/PID", str(one.pid), "/T", "/F"], timeout=120)
        if not self._wait(lambda: not self._family(name), self._times.vanish):
            pids = ", ".join(str(one.pid) for one in self._family(name))
            raise ReleaseError(f"{name} does not end: pid {pids}", "end it in the Task Manager, then run this again")

    def remove(self, name: str) -> None:
        """Stop a service and take its launcher away, without which its task ends at once."""
        self.stop(name)
        self._launchers.remove(name)

    def down(self) -> list[str]:
        """Stop every service that has a launcher here."""
        return stop_all(self)

    def _unlike(self, unit: str, wanted: str) -> list[str]:
        done = tool.call(["schtasks", "/Query", "/TN", unit, "/XML"], timeout=120)
        if done.code != 0:
            return [f"the task {unit} is not registered"]
        return (
            []
            if f"; definition {tasks_xml.mark_of(wanted)}" in done.out
            else [f"the task {unit} differs from what this release wants"]
        )

    def _family(self, name: str, everyone: list[Process] | None = None) -> list[Process]:
        """The processes of a service, parents first: a virtual environment's python.exe starts the real one."""
        wanted = self._launchers.argv(name)
        if not wanted:
            return []
        found = [one for one in (self._table() if everyone is None else everyone) if one.argv[1:] == wanted[1:]]
        pids = {one.pid for one in found}
        return sorted(found, key=lambda one: one.parent in pids)

    def _settled(self, name: str) -> Running:
        self._wait(lambda: bool(self._family(name)), self._times.appear)
        first = _running(name, self._family(name))
        deadline = time.monotonic() + self._times.steady
        while first.pid is not None and time.monotonic() < deadline:
            self._sleep(self._times.between)
            now = _running(name, self._family(name))
            if now.pid != first.pid:
                # the real interpreter may appear after its launcher: then the first is its parent
                if now.pid is None or first.pid not in [one.pid for one in self._family(name)]:
                    return Running(name, "failed")
                first = now
        return first

    def _asked(self, name: str) -> bool:
        """True when a node took the request to stop on its loopback port; others have no such port."""
        ready = [_READY.match(line.strip()) for line in tail(output_of(self._root, names.unit(name)), lines=500)]
        last = next((one for one in reversed(ready) if one), None)
        if last is None:
            return False
        node_id, address = last.groups()
        try:
            token = (self._root / "shared" / "state" / f"{node_id}.stop-token").read_text(encoding="ascii").strip()
            headers = {"Authorization": f"Bearer {token}"}
            request = urllib.request.Request(f"http://{address}/stop", b"", headers, method="POST")
            with _OPENER.open(request, timeout=10) as answer:
                return bool(json.load(answer).get("stopping"))
        except (OSError, ValueError, urllib.error.URLError):
            return False

    def _patience(self, name: str) -> float:
        stored = Host.stored(self._root)
        return float(stored.services.get(name, 0) if stored else 0) + STOP_MARGIN_S

    def _wait(self, done: Callable[[], bool], within: float) -> bool:
        deadline = time.monotonic() + within
        while not done():
            if time.monotonic() > deadline:
                return False
            self._sleep(self._times.between)
        return True


def _running(name: str, family: list[Process]) -> Running:
    return (
        Running(name, "running", family[-1].pid, "running") if family else Running(name, "stopped", None, "not there")
    )


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a loopback address goes through no proxy
