"""A service behind the holder: the holder's own copy, its command, and what its worker is doing."""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iop_release import processes
from iop_release.errors import ReleaseError
from iop_release.services.contract import Running, Service
from iop_release.services.launcher import Launchers

READY_WITHIN = 120.0  # seconds for a new worker to say that it is ready
REPLACED_WITHIN = 900.0  # seconds for the old one to end: it asks for what it needs, which `drain_timeout` bounds
_MORE = 20  # seconds that the holder has for its own end beyond its worker's, the second SIGTERM included
_NAME = "holder"


@dataclass(frozen=True)
class Held:
    """The holder of one service. `folder` survives releases; the worker is started from the service's launcher."""

    name: str
    folder: Path
    launchers: Launchers
    home: Path
    python: str

    def program(self, service: Service) -> Service:
        """The holder as a program: it stays the same from release to release, until it or an address changes."""
        code = _code()
        listen = [part for name, where in service.listeners.items() for part in ("--listen", f"{name}={where}")]
        argv = [self.python, "-X", f"{processes.HOLDER}{self.home}", "-I", str(self._copy(code))]
        argv += [
            "--state",
            str(self._state),
            "--stop-wait",
            str(service.stop_wait_s),
            *listen,
            "--",
            str(self.launchers.path(self.name)),
        ]
        return replace(
            service, argv=tuple(argv), env={}, watch=(), listeners={}, stop_wait_s=service.stop_wait_s + _MORE
        )

    def install(self, service: Service) -> None:
        """Write the launcher, and a copy of the holder where no release's end removes it."""
        self.launchers.write(service)
        code = _code()
        copy = self._copy(code)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in self.folder.glob(f"{_NAME}-*.py"):
            if old != copy:
                old.unlink(missing_ok=True)
        if not copy.is_file():
            fresh = copy.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(code)
            fresh.replace(copy)

    def state(self) -> dict[str, Any] | None:
        """What the holder last wrote (see `iop_release.holder`); None when there is none, or it is gone."""
        try:
            state: dict[str, Any] = json.loads(self._state.read_text(encoding="utf-8"))
            os.kill(int(state["holder"]), 0)
        except (OSError, ValueError, KeyError):
            return None
        return state

    def running(self, holder: Running) -> Running:
        """The worker as the service, given what the manager knows of the holder."""
        state = self.state() if holder.pid is not None else None
        if state is None or state["holder"] != holder.pid:
            return holder
        if state["worker"] is None:
            return Running(holder.name, "failed", None, f"its program ended with {state['last_end']}")
        return Running(holder.name, "running", int(state["worker"]), "running" if state["ready"] else "starting")

    def wait(self, holder: Running, after: dict[str, Any] | None, tail: Callable[[], str]) -> Running:
        """Return when a worker later than that of the state `after` is ready. Raises `ReleaseError` with the log's end.

        A worker that does not come up is left to the holder, which tries again: what waits in the sockets is served
        as soon as a launcher works.
        """
        number, ends = (after["number"], after["ends"]) if after else (0, 0)
        ready_by = time.monotonic() + READY_WITHIN
        replaced_by = time.monotonic() + REPLACED_WITHIN
        while True:
            state = self.state()
            if state is not None and state["ends"] > ends:
                raise ReleaseError(f"{self.name} does not stay up ({state['last_end']}); {tail()}")
            if state is not None and state["number"] > number and state["ready"]:
                return self.running(holder)
            now = time.monotonic()
            if state is not None and after is not None and state["number"] <= number and now < replaced_by:
                ready_by = now + READY_WITHIN  # the old one still finishes its work
            if now > ready_by:
                raise ReleaseError(f"{self.name} is not ready after {READY_WITHIN:g} s; {tail()}")
            time.sleep(0.05)

    @property
    def _state(self) -> Path:
        return self.folder / f"{self.name}.json"

    def _copy(self, code: bytes) -> Path:
        return self.folder / f"{_NAME}-{hashlib.sha256(code).hexdigest()[:12]}.py"


def _code() -> bytes:
    code = pkgutil.get_data("iop_release", f"{_NAME}.py")  # works in a zip application too
    assert code is not None
    return code
