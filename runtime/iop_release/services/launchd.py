"""The service manager of Macs: daemons of launchd's system domain, driven by launchctl through sudo rules of their own.

Not run on a real Mac: tested over a stand-in that answers with the real tool's exit codes, asynchronous as it is.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.services import names, plists, tool
from iop_release.services.contract import Running, Service, stop_all
from iop_release.services.definitions import STOP_MARGIN_S, Host
from iop_release.services.held import Held
from iop_release.services.installed import obstacles
from iop_release.services.launcher import Launchers
from iop_release.services.logs import LOG_FILE, cut, last_words, output_of

_GONE = 113  # `print` of a label that is not loaded
_NOT_LOADED = (3, 113)  # `bootout` of such a label
_BUSY = (5, 36, 37)  # what goes away is not gone yet: try again
_PID = re.compile(r"^\s*pid = (\d+)$", re.MULTILINE)
_STATE = re.compile(r"^\s*state = (.+)$", re.MULTILINE)
_END = re.compile(r"^\s*(last (?:exit code|terminating signal)) = (.+)$", re.MULTILINE)
_RUNS = re.compile(r"^\s*runs = (\d+)$", re.MULTILINE)
_FINE = ("0", "(never exited)")


@dataclass(frozen=True)
class Times:
    """Seconds: how long a program must live to count, how long launchd gets for each step, and between two looks."""

    steady: float = 1.0
    appear: float = 15.0
    bootstrap: float = 20.0
    vanish: float = 20.0
    between: float = 0.25


@dataclass(frozen=True)
class _Job:
    """What `launchctl print` says; `text` None when the label is not loaded."""

    text: str | None

    @property
    def loaded(self) -> bool:
        return self.text is not None

    @property
    def pid(self) -> int | None:
        found = _PID.search(self.text or "")
        return int(found[1]) if found else None

    @property
    def detail(self) -> str:
        if self.text is None:
            return "not loaded"
        state = _STATE.search(self.text)
        ends = [f"{what} {value}" for what, value in _END.findall(self.text)]
        return ", ".join([state[1] if state else "unknown state", *ends])

    @property
    def runs(self) -> int:
        found = _RUNS.search(self.text or "")
        return int(found[1]) if found else 0

    @property
    def failed(self) -> bool:
        """Down, and its last program ended otherwise than by its own will."""
        return self.pid is None and any(value not in _FINE for _, value in _END.findall(self.text or ""))


class Launchd:
    """The daemons of the host whose folder is `root`."""

    def __init__(
        self,
        root: Path,
        *,
        sudo: Sequence[str] | None = None,
        installed_below: Path = Path("/"),
        times: Times | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root = root.absolute()
        self._launchers = Launchers(self._root)
        self._sudo = tool.as_root() if sudo is None else tuple(sudo)
        self._below = installed_below
        self._times = times or Times()
        self._sleep = sleep

    def running(self) -> dict[str, Running]:
        """The services that have a launcher here; of one behind a holder, the program that it runs."""
        known = self._launchers.services().items()
        return {name: self._held(name).running(_running(name, self._print(label))) for label, name in known}

    def obstacles(self, wanted: Sequence[Service]) -> list[str]:
        """What bootstrap has to do first: plists that are missing or differ from this release's."""
        return obstacles(self._root, wanted, self._below)

    def ensure(self) -> None:
        """Nothing to do: launchd is there, or it is no Mac. Raises `ReleaseError`."""
        done = tool.call(["launchctl", "print", "system"], timeout=60)
        if done.code != 0:
            raise ReleaseError(f"launchd does not answer on this host: {done.text}")

    def start(self, service: Service, log: Path) -> Running:
        """Write its launcher and start it, in place of what runs; return when it has stayed up for a second.

        One with `listeners` runs behind a holder of its sockets, which is told to replace its program.
        """
        if not service.listeners:
            return self._start(service, log)
        label, held = names.unit(service.name), self._held(service.name)
        held.install(_logging(service, log))
        program = held.program(service)
        job, before = self._print(label), held.state()
        changed = self._launchers.write(_logging(program, log))
        if not changed and self._is_newest(label) and before is not None and before["holder"] == job.pid:
            self._must("kill", "SIGHUP", f"system/{label}")
            holder = _running(service.name, job)
        else:
            self.stop(service.name)
            holder, before = self._start(program, log), None
        words = f"the end of {log}:"
        return held.wait(holder, before, lambda: f"{words}\n{last_words(log, output_of(self._root, label))}")

    def _start(self, service: Service, log: Path) -> Running:
        label = names.unit(service.name)
        output = output_of(self._root, label)
        cut(output)
        self._launchers.write(_logging(service, log))
        before = self._print(label)
        if before.loaded and self._is_newest(label):
            self._must("kickstart", *(["-k"] if before.pid else []), f"system/{label}")
        else:
            if before.loaded:
                self._bootout(label)
            self._bootstrap(label)
            before = _Job(None)
        job = self._settled(service.name, before)
        if job.pid is not None:
            return _running(service.name, job)
        self.stop(service.name)
        words = last_words(log, output)
        raise ReleaseError(f"{service.name} does not stay up ({job.detail}); the end of {log}:\n{words}")

    def stop(self, name: str) -> None:
        """End a program and wait until it is gone. One that ends well stays loaded, so that a start is a kickstart."""
        label = names.unit(name)
        job = self._print(label)
        if job.pid is not None:
            self._change("kill", "SIGTERM", f"system/{label}")
            job = self._wait(label, lambda one: one.pid is None, self._patience(name))
        if job.pid is not None or job.failed:  # it is deaf, or launchd would start it again
            self._bootout(label)

    def remove(self, name: str) -> None:
        """Stop a program, unload it, and take its launcher away, without which it does not start at boot either."""
        label = names.unit(name)
        self.stop(name)
        self._launchers.remove(name)
        if self._print(label).loaded:
            self._bootout(label)
        self._mark(label).unlink(missing_ok=True)

    def down(self) -> list[str]:
        """Stop every service that has a launcher here."""
        return stop_all(self)

    def _bootout(self, label: str) -> None:
        """Unload; launchd does it behind the tool's back, so that `print` is asked until the label is gone."""
        done = self._change("bootout", f"system/{label}")
        if done.code not in (0, *_NOT_LOADED, *_BUSY):
            raise ReleaseError(f"launchd does not unload {label} (exit code {done.code}): {done.text}")
        self._mark(label).unlink(missing_ok=True)
        stored = Host.stored(self._root)
        longest = max(stored.services.values(), default=0) + STOP_MARGIN_S if stored else 0
        job = self._wait(label, lambda one: not one.loaded, self._times.vanish + longest)
        if job.loaded:
            raise ReleaseError(f"launchd still has {label}: {job.detail}", f"sudo launchctl bootout system/{label}")

    def _bootstrap(self, label: str) -> None:
        """Load the installed plist; if launchd refuses it, the one before it, so that something runs, and say so."""
        path, previous = plists.path_of(label), plists.previous_of(label)
        self._enable(label)
        done = self._bootstrapped(path)
        if done.code == 0:
            self._mark(label).write_text(self._digest(label), encoding="utf-8")
            return
        told = f"launchd does not load {path} (exit code {done.code}): {done.text}"
        if not self._on_disk(previous).is_file():
            raise ReleaseError(told, tool.BOOTSTRAP)
        back = self._bootstrapped(previous)
        what = "was put back" if back.code == 0 else f"cannot be put back either (exit code {back.code}): {back.text}"
        raise ReleaseError(f"{told}\nthe definition before it, {previous}, {what}", tool.BOOTSTRAP)

    def _bootstrapped(self, path: str) -> tool.Done:
        """Codes 5 and 37 mean that the old job is not gone yet, whatever `print` says: again, for a while."""
        deadline = time.monotonic() + self._times.bootstrap
        while True:
            done = self._change("bootstrap", "system", path)
            if done.code not in _BUSY or time.monotonic() > deadline:
                return done
            self._sleep(self._times.between)

    def _enable(self, label: str) -> None:
        """A label that somebody disabled is refused by bootstrap, and its reason is not told."""
        told = tool.call(["launchctl", "print-disabled", "system"], timeout=60).out
        if re.search(rf'"{re.escape(label)}" => (disabled|true)', told):
            self._must("enable", f"system/{label}")

    def _settled(self, name: str, before: _Job) -> _Job:
        """The job once a new program of it has lived for a second; without a pid when none did."""
        label = names.unit(name)
        job = self._wait(
            label,
            lambda one: one.pid not in (None, before.pid) or (one.failed and one.runs > before.runs),
            self._times.appear + self._patience(name),
        )
        first, deadline = job.pid, time.monotonic() + self._times.steady
        while job.pid is not None and time.monotonic() < deadline:
            self._sleep(self._times.between)
            job = self._print(label)
            if job.pid != first:
                return _Job(_PID.sub("", job.text or ""))
        return job if first != before.pid else _Job(_PID.sub("", job.text or ""))

    def _wait(self, label: str, done: Callable[[_Job], bool], within: float) -> _Job:
        deadline = time.monotonic() + within
        while True:
            job = self._print(label)
            if done(job) or time.monotonic() > deadline:
                return job
            self._sleep(self._times.between)

    def _patience(self, name: str) -> float:
        """Seconds that a program of this name may take to end: the margin is its holder's, where it has one."""
        stored = Host.stored(self._root)
        return float(stored.services.get(name, 0) if stored else 0) + STOP_MARGIN_S

    def _held(self, name: str) -> Held:
        """The holder of a service's sockets, and its program's own launcher beside it."""
        folder = self._root / "shared" / "held"
        return Held(name, folder, Launchers(self._root, folder="held"), self._root, sys.executable)

    def _is_newest(self, label: str) -> bool:
        """True when what launchd has loaded is what the file says today."""
        try:
            return self._mark(label).read_text(encoding="utf-8") == self._digest(label)
        except OSError:
            return False

    def _digest(self, label: str) -> str:
        return hashlib.sha256(self._on_disk(plists.path_of(label)).read_bytes()).hexdigest()

    def _mark(self, label: str) -> Path:
        return self._root / "shared" / "run" / f"{label}.loaded"

    def _on_disk(self, path: str) -> Path:
        return self._below / path.lstrip("/")

    def _must(self, *words: str) -> None:
        done = self._change(*words)
        if done.code != 0:
            raise ReleaseError(f"launchctl {' '.join(words)} failed with exit code {done.code}: {done.text}")

    def _change(self, *words: str) -> tool.Done:
        return tool.call([*self._sudo, "launchctl", *words])

    def _print(self, label: str) -> _Job:
        done = tool.call(["launchctl", "print", f"system/{label}"], timeout=60)
        if done.code not in (0, _GONE):
            raise ReleaseError(f"launchctl print system/{label} failed with exit code {done.code}: {done.text}")
        return _Job(done.out if done.code == 0 else None)


def _logging(service: Service, log: Path) -> Service:
    return replace(service, env={**service.env, LOG_FILE: str(log)})


def _running(name: str, job: _Job) -> Running:
    state = "running" if job.pid else "failed" if job.failed else "stopped"
    return Running(name, state, job.pid, job.detail)
