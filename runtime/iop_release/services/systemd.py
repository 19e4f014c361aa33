"""The service manager of Linux hosts: system units that bootstrap installed, changed through sudo rules of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.services import names, tool, units
from iop_release.services.contract import Running, Service, stop_all
from iop_release.services.definitions import Host
from iop_release.services.installed import obstacles
from iop_release.services.launcher import Launchers

_SHOWN = ("Id", "LoadState", "ActiveState", "SubState", "MainPID", "Result", "NRestarts", "NeedDaemonReload")
_STATES = {"active": "running", "reloading": "running", "inactive": "stopped", "deactivating": "stopped"}
_LINES = "15"  # of the journal, for a person


@dataclass(frozen=True)
class _State:
    """What `systemctl show` says of one unit."""

    facts: dict[str, str]

    def __getitem__(self, key: str) -> str:
        return self.facts.get(key, "")

    @property
    def pid(self) -> int | None:
        return int(self["MainPID"] or 0) or None

    @property
    def up(self) -> bool:
        return self["ActiveState"] in ("active", "reloading")

    def running(self, name: str) -> Running:
        detail = f"{self['ActiveState']} ({self['SubState']})"
        if self["Result"] not in ("", "success"):
            detail += f", {self['Result']}"
        return Running(name, _STATES.get(self["ActiveState"], "failed"), self.pid if self.up else None, detail)


class Systemd:
    """The units of the host whose folder is `root`. `folders` says where files lie that are not below `/` (tests)."""

    def __init__(
        self,
        root: Path,
        *,
        sudo: Sequence[str] | None = None,
        installed_below: Path = Path("/"),
        steady_s: float = 1.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root = root.absolute()
        self._launchers = Launchers(self._root)
        self._sudo = tool.as_root() if sudo is None else tuple(sudo)
        self._below = installed_below
        self._steady_s = steady_s
        self._sleep = sleep

    def running(self) -> dict[str, Running]:
        """The services that have a launcher here."""
        known = self._launchers.services()
        if not known:
            return {}
        states = self._show(list(known))
        return {name: states[unit].running(name) for unit, name in known.items()}

    def obstacles(self, wanted: Sequence[Service]) -> list[str]:
        """What bootstrap has to do first: units that are missing, differ from this release's, or are not read yet."""
        found = obstacles(self._root, wanted, self._below)
        host = Host.stored(self._root)
        if found or host is None:
            return found
        for service in wanted:
            if service.listeners and service.listeners != host.addresses:
                return [
                    f"the sockets of {service.name} were installed for {dict(host.addresses)}, not {service.listeners}"
                ]
        stale = [unit for unit, state in self._show(host.units).items() if state["NeedDaemonReload"] == "yes"]
        return [f"systemd has not read {unit}.service again since it changed" for unit in stale]

    def ensure(self) -> None:
        """Nothing to do: systemd is there, or it is no host of systemd. Raises `ReleaseError`."""
        done = tool.call(["systemctl", "show", "--property=Version"], timeout=60)
        if done.code != 0:
            raise ReleaseError(f"systemd does not answer on this host: {done.text}")

    def start(self, service: Service, log: Path) -> Running:  # noqa: ARG002 - the contract's signature
        """Write its launcher and start it, in place of what runs; return when it says that it is ready.

        The Edge's sockets are units of their own and stay open.
        `log` is not used: the journal keeps and rotates what services say.
        """
        unit = names.unit(service.name)
        self._launchers.write(service)
        before = self._state(unit)
        if before["ActiveState"] == "failed":
            self._reset(unit)
        done = self._change("restart" if before.up else "start", f"{unit}.service")
        state = self._settled(unit, notifies=names.kind(service.name) != "engine")
        if done.code == 0 and state.up:
            return state.running(service.name)
        words = self._journal(unit)
        self.stop(service.name)
        told = state.running(service.name).detail
        hint = tool.BOOTSTRAP if state["LoadState"] == "not-found" else ""
        text = f"{service.name} does not stay up ({told}); {done.text or 'systemctl said nothing'}"
        raise ReleaseError(f"{text}\nthe end of its journal (journalctl -u {unit}):\n{words}", hint)

    def stop(self, name: str) -> None:
        """Stop a unit and wait until its last process is gone; past TimeoutStopSec systemd kills them."""
        unit = names.unit(name)
        state = self._state(unit)
        sockets = self._sockets() if unit == names.EDGE else ()
        asleep = state["LoadState"] == "not-found" or state["ActiveState"] in ("inactive", "failed")
        if asleep and not sockets:
            return
        done = self._change("stop", *units.stop_targets(unit, sockets))
        state = self._state(unit)
        if state.up or state["ActiveState"] == "deactivating":
            raise ReleaseError(f"systemd cannot stop {name} ({unit}): {done.text}")

    def remove(self, name: str) -> None:
        """Stop a unit and take its launcher away, without which it does not start any more, at boot neither."""
        self.stop(name)
        self._launchers.remove(name)

    def down(self) -> list[str]:
        """Stop every service that has a launcher here."""
        return stop_all(self)

    def _settled(self, unit: str, *, notifies: bool) -> _State:
        """Its state; that of a program which does not say when it is ready, after it has lived for a second."""
        state = self._state(unit)
        deadline = time.monotonic() + self._steady_s
        while not notifies and state.up and time.monotonic() < deadline:
            self._sleep(0.1)
            now = self._state(unit)
            if now.pid != state.pid or now["NRestarts"] != state["NRestarts"]:
                return _State({**now.facts, "ActiveState": "failed"})
            state = now
        return state

    def _sockets(self) -> tuple[str, ...]:
        host = Host.stored(self._root)
        return () if host is None else host.sockets()

    def _reset(self, unit: str) -> None:
        for one in (f"{unit}.service", *(self._sockets() if unit == names.EDGE else ())):
            self._change("reset-failed", one)

    def _change(self, verb: str, *targets: str) -> tool.Done:
        return tool.call([*self._sudo, "systemctl", verb, *targets])

    def _state(self, unit: str) -> _State:
        return self._show([unit])[unit]

    def _show(self, wanted: Sequence[str]) -> dict[str, _State]:
        command = ["systemctl", "show", f"--property={','.join(_SHOWN)}", *(f"{unit}.service" for unit in wanted)]
        done = tool.call(command, timeout=60)
        if done.code != 0:
            raise ReleaseError(f"systemd does not answer on this host: {done.text}")
        blocks = [block for block in done.out.split("\n\n") if block.strip()]
        states = [_State(dict(line.split("=", 1) for line in block.splitlines() if "=" in line)) for block in blocks]
        found = {state["Id"].partition(".service")[0]: state for state in states}
        return {unit: found.get(unit, _State({"LoadState": "not-found", "ActiveState": "inactive"})) for unit in wanted}

    def _journal(self, unit: str) -> str:
        done = tool.call(["journalctl", "-u", unit, "-n", _LINES, "-o", "cat", "--no-pager"], timeout=60)
        lines = done.out.splitlines() if done.code == 0 else done.text.splitlines()
        return "\n".join(f"  | {line}" for line in lines) or "  | (nothing was logged)"
