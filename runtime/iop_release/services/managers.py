"""The service managers by the names that the inventory uses for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from iop_release.services.contract import ServiceManager


def manager(name: str, home: Path) -> ServiceManager:
    """The manager of this name (one of `definitions.MANAGERS`) for the services of `home`.

    `home` is the environment's build folder for supervisor, else the host's folder. A manager's module is imported when
    it is wanted, because each uses what only its own system has.
    """
    return _MAKERS[name](home)


def _supervisor(home: Path) -> ServiceManager:
    from iop_release.services.supervisor import Supervisor

    return Supervisor(home)


def _systemd(home: Path) -> ServiceManager:
    from iop_release.services.systemd import Systemd

    return Systemd(home)


def _launchd(home: Path) -> ServiceManager:
    from iop_release.services.launchd import Launchd

    return Launchd(home)


def _windows(home: Path) -> ServiceManager:
    from iop_release.services.windows_task import WindowsTask

    return WindowsTask(home)


_MAKERS: dict[str, Callable[[Path], ServiceManager]] = {
    "supervisor": _supervisor,
    "systemd": _systemd,
    "launchd": _launchd,
    "windows_task": _windows,
}
