"""From what runs to what should run: a plan by facts, then stop, switch, start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from iop_release import processes
from iop_release.errors import ReleaseError
from iop_release.layout import HostRoot
from iop_release.services.contract import Running, Service, ServiceManager
from iop_release.services.tool import BOOTSTRAP

_STALE = "stale"  # in a record: why its service has to be restarted


@dataclass(frozen=True)
class Step:
    """What one service needs: `none`, `start` or `restart`, and why."""

    name: str
    action: str
    reason: str
    release_before: str | None = None


@dataclass
class Plan:
    """What an activation does, or did: `changed` is true when anything differs from what runs."""

    release: str
    current: str | None
    switch: bool
    steps: list[Step] = field(default_factory=list)
    findings: list[dict[str, str]] = field(default_factory=list)  # what root has to do first

    @property
    def changed(self) -> bool:
        """True when there is anything to do."""
        return self.switch or any(step.action != "none" for step in self.steps)

    def as_json(self) -> dict[str, object]:
        """For `--json`."""
        return {**asdict(self), "changed": self.changed}


def plan(
    root: HostRoot, release: str, services: Sequence[Service], manager: ServiceManager, force: Sequence[str] = ()
) -> Plan:
    """Compare what runs with what should run. Reads only; the release need not be staged yet."""
    current = root.pointer("current")
    known = manager.running()
    wanted = [_wanted(root, service, release) for service in services]
    steps = [_step(service, known.get(service.name), _record(root, service.name)) for service in wanted]
    steps = [_forced(step) if step.name in force else step for step in steps]
    findings = [{"code": "definitions", "message": text, "hint": BOOTSTRAP} for text in manager.obstacles(wanted)]
    return Plan(release, current, current != release, steps, findings)


def activate(
    root: HostRoot, release: str, services: Sequence[Service], manager: ServiceManager, force: Sequence[str] = ()
) -> Plan:
    """Make the release current and run the services from it. Raises `ReleaseError`; the next call repairs.

    The record of a service is removed before it is touched and written when it runs, so an interrupted activation
    leaves a service without a record, and that service is restarted next time.
    """
    if not root.is_staged(release):
        raise ReleaseError(f"release {release} is not staged in {root.path}", "stage it first")
    manager.ensure()
    todo = plan(root, release, services, manager, force)
    if todo.findings:
        raise ReleaseError("; ".join(one["message"] for one in todo.findings), BOOTSTRAP)
    busy = [step.name for step in todo.steps if step.action != "none"]
    ordered = sorted((one for one in services if one.name in busy), key=lambda one: one.priority)
    for service in reversed(ordered):
        _record_file(root, service.name).unlink(missing_ok=True)
        if not service.listeners:  # the start of one with listeners replaces it, and nobody is turned away meanwhile
            manager.stop(service.name)
    root.switch(release)
    for service in ordered:
        ready = service.resolved(root.release(release), release)
        running = manager.start(ready, root.shared / "logs" / f"{service.name}.log")
        _write_record(root, service, ready, running)
    return todo


def mark(root: HostRoot, name: str, reason: str) -> None:
    """Note that what this service runs with is out of date: the next plan restarts it, whichever run makes that plan.

    For files that a program has read at its start, and that are about to be put right: whether it was started before or
    after somebody changed them cannot be seen from outside. A service that was never activated needs no mark.
    """
    record = _record(root, name)
    if record is not None:
        _store(root, name, {**record, _STALE: reason})


def remove(root: HostRoot, names: Sequence[str], manager: ServiceManager, *, dry_run: bool = False) -> list[str]:
    """Stop these services and forget them; return those that were known. Raises `ReleaseError`."""
    known = {*manager.running(), *records(root)}
    gone = [name for name in names if name in known]
    for name in gone if not dry_run else ():
        manager.remove(name)
        _record_file(root, name).unlink(missing_ok=True)
    return gone


def records(root: HostRoot) -> dict[str, dict[str, object]]:
    """What the last activations wrote about each service, by name."""
    folder = root.shared / "run"
    found = {path.stem: _record(root, path.stem) for path in sorted(folder.glob("*.json"))} if folder.is_dir() else {}
    return {name: record for name, record in found.items() if record is not None}


def _wanted(root: HostRoot, service: Service, release: str) -> Service:
    record = _record(root, service.name) if service.lasting else None
    own = str(record["release"]) if record else release
    return service.resolved(root.release(own), own)


def _forced(step: Step) -> Step:
    return step if step.action == "start" else Step(step.name, "restart", "asked for", step.release_before)


def _step(service: Service, running: Running | None, record: dict[str, object] | None) -> Step:
    before = str(record["release"]) if record else None
    if running is None or running.pid is None or running.state != "running":
        return Step(service.name, "start", "not running" if running is None else running.detail, before)
    if record is None:
        return Step(service.name, "restart", "an earlier activation did not finish")
    if _STALE in record:
        return Step(service.name, "restart", str(record[_STALE]), before)
    if record["release"] != service.env["IOP_RELEASE_ID"]:
        return Step(service.name, "restart", f"runs release {before}", before)
    if record["digest"] != service.digest or not shows(running.pid, service.argv):
        return Step(service.name, "restart", "its command, environment or start-up config differs", before)
    return Step(service.name, "none", "runs as wanted", before)


def shows(pid: int, argv: tuple[str, ...]) -> bool:
    """True when this pid runs these arguments; argv[0] aside, which a framework Python on macOS replaces."""
    process = processes.read(pid)
    return process is not None and " ".join(process.argv[1:]) == " ".join(argv[1:])


def is_alive(record: dict[str, object]) -> bool:
    """Whether the process that an activation wrote down still runs as it was started."""
    pid, argv = record.get("pid"), record.get("argv")
    return isinstance(pid, int) and isinstance(argv, list) and shows(pid, tuple(map(str, argv)))


def ports_of_the_living(root: HostRoot) -> set[int]:
    """The ports of all recorded services that still run."""
    found: set[int] = set()
    for record in records(root).values():
        told = record.get("ports", [record.get("port")])
        if is_alive(record) and isinstance(told, list):
            found.update(one for one in told if isinstance(one, int))
    return found


def _record_file(root: HostRoot, name: str) -> Path:
    return root.shared / "run" / f"{name}.json"


def _record(root: HostRoot, name: str) -> dict[str, object] | None:
    try:
        data = json.loads(_record_file(root, name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) and {"release", "digest"} <= data.keys() else None


def _write_record(root: HostRoot, service: Service, ready: Service, running: Running) -> None:
    record = {
        "name": service.name,
        "pid": running.pid,
        "port": service.port,
        "ports": [service.port, *(int(address.rpartition(":")[2]) for address in service.listeners.values())],
        "release": ready.env["IOP_RELEASE_ID"],
        "digest": ready.digest,
        "argv": list(ready.argv),
        "definition": asdict(service),
    }
    _store(root, service.name, record)


def _store(root: HostRoot, name: str, record: Mapping[str, object]) -> None:
    path = _record_file(root, name)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    fresh.replace(path)
