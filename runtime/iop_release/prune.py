"""Old releases go; the current one, the previous one and the newest few stay."""

from __future__ import annotations

import shutil
from pathlib import Path

from iop_release.layout import HostRoot


def doomed(root: HostRoot, keep: int) -> list[str]:
    """Ids of releases that `prune` would remove: all but `current`, `previous` and the `keep` newest; half-made too."""
    staged = root.staged()
    kept = {root.pointer("current"), root.pointer("previous"), *staged[len(staged) - keep :]}
    if not root.releases.is_dir():
        return []
    return sorted(folder.name for folder in root.releases.iterdir() if folder.name not in kept)


def prune(root: HostRoot, keep: int) -> list[str]:
    """Remove old releases; returns their ids."""
    gone = doomed(root, keep)
    for name in gone:
        shutil.rmtree(root.releases / name, ignore_errors=True)
    return gone


def unused(root: HostRoot, dist: Path) -> list[Path]:
    """Folders of built releases that this host no longer has."""
    if not dist.is_dir():
        return []
    return sorted(folder for folder in dist.iterdir() if not root.is_staged(folder.name.lstrip(".")))
