"""What a host runs: release pointers, each service with its state, pid and release, and what root has to do first."""

from __future__ import annotations

from iop_release.activate import is_alive, records
from iop_release.layout import HostRoot
from iop_release.services.contract import Running, ServiceManager


def status(root: HostRoot, manager: ServiceManager) -> dict[str, object]:
    """The state of one host root. Reads only."""
    known = manager.running()
    services = []
    for name, record in records(root).items():
        state, pid = _life(known.get(name), record)
        services.append(
            {
                "name": name,
                "state": state,
                "pid": pid,
                "release": record["release"],
                "port": record.get("port"),
            }
        )
    return {
        "current": root.pointer("current"),
        "previous": root.pointer("previous"),
        "staged": root.staged(),
        "services": services,
        "obstacles": manager.obstacles([]),
    }


def _life(running: Running | None, record: dict[str, object]) -> tuple[str, int | None]:
    """What the manager says; where it knows nothing (it was killed), whether the recorded process still lives."""
    if running is not None:
        return running.state, running.pid
    pid = record.get("pid")
    return ("unsupervised", pid) if isinstance(pid, int) and is_alive(record) else ("stopped", None)
