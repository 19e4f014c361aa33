"""What of a host's definitions is on that host: compared for plans, written by bootstrap."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.services import as_root
from iop_release.services.contract import Service
from iop_release.services.definitions import SUDOERS, File, Host


def differing(host: Host, below: Path = Path("/")) -> list[tuple[str, str]]:
    """The definitions that are not as they should be: (path, `is missing` or `differs …`). Reads only.

    sudo's own files cannot be read by others; a rule that is missing shows when it is needed.
    """
    found = []
    for file in host.definitions():
        try:
            same = placed(file, below).read_bytes() == _raw(file)
        except FileNotFoundError:
            found.append((file.path, "is missing"))
            continue
        except OSError as error:
            if file.path != SUDOERS:
                found.append((file.path, f"cannot be read: {error.strerror}"))
            continue
        if not same:
            found.append((file.path, "differs from what this release wants"))
    return found


def obstacles(root: Path, wanted: Sequence[Service], below: Path = Path("/")) -> list[str]:
    """What bootstrap has to bring before these services can run as this release wants, as sentences. Reads only."""
    host = Host.stored(root)
    if host is None:
        return [f"the service definitions of {root} were never installed"]
    lacking = [service.name for service in wanted if service.name not in host.services]
    if lacking:
        return [f"no service definition was installed for {', '.join(lacking)}"]
    return [f"{path} {what}" for path, what in differing(host, below)]


def install(host: Host, below: Path = Path("/"), *, dry_run: bool = False) -> list[str]:
    """Make the folders and files as they should be; return those that were not. For root. Raises `ReleaseError`."""
    changed = [file.path for file in host.folders() if _folder(file, below, dry_run=dry_run)]
    files = host.files()
    for file in files:
        if file.path == SUDOERS:
            _check_sudoers(file)
    return changed + [file.path for file in files if _file(file, below, dry_run=dry_run)]


def placed(file: File, below: Path) -> Path:
    """The file's path below another folder than `/`."""
    return below / file.path.lstrip("/")


def _folder(file: File, below: Path, *, dry_run: bool) -> bool:
    path = placed(file, below)
    if path.is_dir() and not path.is_symlink() and _owned(path, file):
        return False
    if not dry_run:
        as_root.make_folder(path.absolute(), _owner(file))
    return True


def _file(file: File, below: Path, *, dry_run: bool) -> bool:
    path = placed(file, below)
    raw = _raw(file)
    if path.is_file() and not path.is_symlink() and path.read_bytes() == raw and _owned(path, file):
        return False
    if not dry_run:
        if file.previous is not None and path.is_file() and path.read_bytes() != raw:
            _keep(path, below / file.previous.lstrip("/"))
        as_root.write_file(path.absolute(), _owner(file), raw)
    return True


def _raw(file: File) -> bytes:
    return (file.content or "").encode(file.encoding)


def _keep(path: Path, previous: Path) -> None:
    """Keep what is replaced, for the case that the new one does not load."""
    previous.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    shutil.copyfile(path, previous)
    shutil.copystat(path, previous)


def _owned(path: Path, file: File) -> bool:
    facts = path.stat()
    if not hasattr(os, "chown"):  # Windows has access lists instead, which commands of their own set
        return True
    try:
        uid, gid = _ids(file)
    except ReleaseError:  # a dry run comes before the accounts are made
        return False
    return (facts.st_uid, facts.st_gid, facts.st_mode & 0o7777) == (uid, gid, int(file.mode, 8))


def _owner(file: File) -> as_root.Owner:
    return as_root.Owner(*_ids(file), int(file.mode, 8))


def _ids(file: File) -> tuple[int, int]:
    import grp  # not there on Windows
    import pwd

    try:
        gid = int(file.group) if file.group.isdecimal() else grp.getgrnam(file.group).gr_gid
        return pwd.getpwnam(file.owner).pw_uid, gid
    except KeyError as error:
        raise ReleaseError(f"{file.path} needs an account or group that this host does not have: {error}") from error


def _check_sudoers(file: File) -> None:
    """A faulty file there would lock everybody out of sudo."""
    try:
        done = subprocess.run(
            ["visudo", "-c", "-f", "-"],  # noqa: S607 - stands elsewhere on each system
            input=file.content,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise ReleaseError("visudo is not on this host", "install sudo, or deploy as root") from None
    if done.returncode != 0:
        raise ReleaseError(f"visudo refuses the rules for {file.path}: {(done.stderr or done.stdout).strip()}")
