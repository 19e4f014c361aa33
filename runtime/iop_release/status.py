"""What a host runs: release pointers, and each service with its state, pid and release."""

from __future__ import annotations

from iop_release.activate import records
from iop_release.layout import HostRoot
from iop_release.services.contract import ServiceManager


def status(root: HostRoot, manager: ServiceManager) -> dict[str, object]:
    """The state of one host root. Reads only."""
    known = manager.running()
    services = []
    for name, record in records(root).items():
        running = known.get(name)
        services.append(
            {
                "name": name,
                "state": running.state if running else "stopped",
                "pid": running.pid if running else None,
                "release": record["release"],
                "port": record.get("port"),
            }
        )
    return {
        "current": root.pointer("current"),
        "previous": root.pointer("previous"),
        "staged": root.staged(),
        "services": services,
    }
