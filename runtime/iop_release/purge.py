"""Taking a host's folder away: by the account that deploys what is its own, by root the whole."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from iop_release.lock import LOCK
from iop_release.services.definitions import Host

_OURS = ("releases", "incoming", "shared", "current", "previous")


@dataclass
class Purged:
    """What was taken away, and what stays: of another account, or none of ours."""

    removed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def purge(root: Path, *, dry_run: bool = False) -> Purged:
    """All that deploys have put there.

    What bootstrap made stays for the next deploy: empty folders, definitions.json and, on Windows, the tasks' XML. What
    services have written under an account of their own only root may take away; it is told as left.
    """
    done, stored = Purged(), Host.stored(root)
    made = {Path(one.path) for one in (*stored.folders(), *stored.files())} if stored else set()
    if made:
        _empty(root, made, done, dry_run=dry_run)
    elif root.is_dir():
        _all(root, done, dry_run=dry_run)
    return done


def purge_all(root: Path, *, dry_run: bool = False) -> Purged:
    """The whole folder. Whatever else lies in it stays, and the folder around it."""
    done = Purged()
    if root.is_dir():
        _all(root, done, dry_run=dry_run)
    return done


def _empty(folder: Path, made: set[Path], done: Purged, *, dry_run: bool) -> None:
    try:
        inside = sorted(folder.iterdir())
    except PermissionError:
        done.left.append(str(folder))
        return
    for one in inside:
        if one in made:
            if one.is_dir():
                _empty(one, made, done, dry_run=dry_run)
        elif one.parent.parent not in made and one.name not in _OURS:
            continue  # the root's own lock, and what is none of ours
        elif not os.access(folder, os.W_OK):
            done.left.append(str(folder))
            return
        else:
            _remove(one, done, dry_run=dry_run)


def _all(root: Path, done: Purged, *, dry_run: bool) -> None:
    for name in _OURS:
        if os.path.lexists(root / name):
            _remove(root / name, done, dry_run=dry_run)
    strangers = [one for one in sorted(root.iterdir()) if one.name not in (*_OURS, LOCK)]
    if strangers:
        done.left += [str(one) for one in strangers]
    elif os.access(root.parent, os.W_OK):
        done.removed.append(str(root))
        if not dry_run:
            (root / LOCK).unlink(missing_ok=True)
            root.rmdir()


def _remove(path: Path, done: Purged, *, dry_run: bool) -> None:
    if not dry_run:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    done.removed.append(str(path))
