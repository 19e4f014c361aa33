"""Undoing bootstrap on a host: services stopped, definitions and sudo rules removed. For root."""

from __future__ import annotations

import contextlib
import plistlib
from dataclasses import dataclass
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.services import names, plists, tool, units
from iop_release.services.contract import ServiceManager
from iop_release.services.definitions import STORED, SUDOERS, SYSTEMD


@dataclass(frozen=True)
class Found:
    """What bootstrap has put on this host for one folder: paths, and the names of their services and sockets."""

    files: list[Path]
    units: list[str]  # with .service or .socket; launchd's labels without


def installed(manager: str, root: Path, below: Path = Path("/")) -> Found:
    """Looked for on the host itself, so that nothing is left when the inventory or definitions.json was lost.

    Definitions of our names that belong to another folder are left alone, and then the sudo rules as well.
    """
    looks = {"systemd": _units, "launchd": _plists}
    files, foreign = looks[manager](root, below) if manager in looks else ([], False)
    found = [path.name if manager == "systemd" else path.stem for path in files]
    stored, rules = root.joinpath(*STORED), below / SUDOERS.lstrip("/")
    kept = [below / plists.previous_of(one).lstrip("/") for one in found] if manager == "launchd" else []
    more = [*kept, stored, *([] if foreign else [rules])]
    linked = stored.parent.is_symlink()  # root deletes nothing behind a link of another account
    return Found(files + [path for path in more if path.is_file() and not (linked and path == stored)], found)


def remove(services: ServiceManager, manager: str, root: Path, below: Path = Path("/"), *, dry_run: bool) -> list[str]:
    """Stop and unload the services of this folder, then remove their files; returns what was done.

    Raises `ReleaseError` when something does not end; then its definition is still there.
    """
    found = installed(manager, root, below)
    ours = {names.of(unit.partition(".service")[0]) for unit in found.units} - {None}
    ran = sorted(name for name, one in services.running().items() if one.pid)
    done = [f"stopped {name}" for name in ran] + [str(path) for path in found.files]
    if dry_run or not (done or found.units):
        return done
    if manager == "systemd" and found.units:
        _must(["systemctl", "disable", "--now", *sorted(found.units, key=lambda one: one.endswith(".service"))])
    for name in sorted({name for name in ours if name} | set(services.running())):
        services.remove(name)
    for path in found.files:
        path.unlink()
    for path in {path.parent for path in found.files if path.parent == below / plists.PREVIOUS.lstrip("/")}:
        with contextlib.suppress(OSError):  # something else is kept there
            path.rmdir()
    if manager == "systemd" and found.units:
        _must(["systemctl", "daemon-reload"])
        tool.call(["systemctl", "reset-failed", *found.units])  # says 1 for those that never failed
    return done


def _units(root: Path, below: Path) -> tuple[list[Path], bool]:
    ours, foreign, mark = [], False, f"{units.rest(str(root))}/"
    folder = below / SYSTEMD.lstrip("/")
    for path in [*sorted(folder.glob("iop-*.socket")), *sorted(folder.glob("iop-*.service"))]:
        sockets = [f"{names.EDGE}-{one}.socket" for one in names.LISTENERS]
        if path.name not in sockets and names.of(path.stem) is None:
            continue
        mine = mark in path.read_text(encoding="utf-8", errors="replace")
        ours += [path] if mine else []
        foreign |= not mine
    return ours, foreign


def _plists(root: Path, below: Path) -> tuple[list[Path], bool]:
    ours, foreign = [], False
    for path in sorted((below / plists.FOLDER.lstrip("/")).glob("iop-*.plist")):
        if names.of(path.stem) is None:
            continue
        try:
            mine = plistlib.loads(path.read_bytes()).get("WorkingDirectory") == str(root)
        except (ValueError, plistlib.InvalidFileException, AttributeError):
            mine = False
        ours += [path] if mine else []
        foreign |= not mine
    return ours, foreign


def _must(command: list[str]) -> None:
    done = tool.call(command)
    if done.code != 0:
        raise ReleaseError(f"{' '.join(command)} failed with exit code {done.code}: {done.text}")
