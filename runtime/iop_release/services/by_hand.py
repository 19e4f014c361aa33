"""Definitions as a folder that a person carries to a Windows host and installs there as administrator.

Not run on a real Windows: tests read the script's parts and the tasks' XML only.
"""

from __future__ import annotations

from pathlib import Path, PureWindowsPath

from iop_release import put
from iop_release.errors import ReleaseError
from iop_release.services import names, tasks_xml
from iop_release.services.definitions import Host
from iop_release.services.templates_of import filled

SCRIPT = "register.ps1"


def write(host: Host, folder: Path, *, dry_run: bool = False) -> list[str]:
    """Write the files and the script that puts them into place; returns those that differed. Raises `ReleaseError`."""
    if host.manager != "windows_task":
        raise ReleaseError(f"definitions of {host.manager} are installed by bootstrap itself", "use --install")
    if host.service_user != host.user:
        raise ReleaseError(
            f"service_user {host.service_user}: a scheduled task of such an account needs its password",
            "leave service_user out of the host's connection.yml: tasks then run as LOCAL SERVICE",
        )
    if any(char in host.root for char in "'\u2018\u2019\u201a\u201b\"%\r\n"):
        raise ReleaseError(f"a scheduled task cannot start from {host.root!r}", "choose a plainer folder")
    content = {
        PureWindowsPath(file.path).name: (file.content or "").encode(file.encoding)
        for file in host.files()
        if file.content is not None
    }
    content[SCRIPT] = script(host).encode("utf-8-sig")  # with its mark, else PowerShell 5 reads a code page
    return [one for name, raw in sorted(content.items()) for one in put.put([folder / name], raw, dry_run=dry_run)]


def script(host: Host) -> str:
    """The PowerShell script, with Windows' line ends."""
    units = ", ".join(f"'{names.unit(name)}'" for name in sorted(host.services))
    values = {"root": host.root, "units": units, "service": tasks_xml.LOCAL_SERVICE}
    return filled("windows-tasks.ps1", values).replace("\r\n", "\n").replace("\n", "\r\n")
