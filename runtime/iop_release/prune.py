"""Old releases go; the current one, the previous one, what services run from and the newest few stay."""

from __future__ import annotations

import shutil
from pathlib import Path

from iop_release.activate import records
from iop_release.layout import HostRoot

TRASH = ".trash"


def doomed(root: HostRoot, keep: int) -> list[str]:
    """Ids of releases that `prune` would remove, half-made ones too.

    All but `current`, `previous`, those that a service was started from, and the `keep` newest.
    """
    staged = root.staged()
    kept = {root.pointer("current"), root.pointer("previous"), TRASH, *staged[len(staged) - keep :]}
    kept |= {str(record["release"]) for record in records(root).values()}
    if not root.releases.is_dir():
        return []
    return sorted(folder.name for folder in root.releases.iterdir() if folder.name not in kept)


def prune(root: HostRoot, keep: int) -> list[str]:
    """Remove old releases, and what a failed stage left in `incoming/`; returns the ids of the releases.

    Each is renamed into `releases/.trash` first, so that nothing half removed looks like a release. What cannot go,
    because Windows keeps files that a program has open, is tried again by the next call.
    """
    gone = []
    trash = root.releases / TRASH
    for name in doomed(root, keep):
        trash.mkdir(mode=0o700, exist_ok=True)
        shutil.rmtree(trash / name, ignore_errors=True)
        try:
            (root.releases / name).replace(trash / name)
        except OSError:  # in use, or the last try of the same release is still in the trash
            continue
        gone.append(name)
    shutil.rmtree(trash, ignore_errors=True)
    for left in root.incoming.iterdir() if root.incoming.is_dir() else ():  # sent, and never staged
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink()
    return gone


def unused(root: HostRoot, dist: Path) -> list[Path]:
    """Folders of built releases that this host no longer has."""
    if not dist.is_dir():
        return []
    return sorted(folder for folder in dist.iterdir() if not root.is_staged(folder.name.lstrip(".")))


def helpers(running: Path, keep: int) -> list[Path]:
    """The helpers of earlier runs beside this one, but the newest few; none where what runs is no such file."""
    if running.suffix != ".pyz":
        return []
    others = [one for one in running.parent.glob("iop_release-*.pyz") if one.name != running.name]
    return sorted(others, key=lambda one: one.stat().st_mtime_ns)[: max(0, len(others) - keep + 1)]
