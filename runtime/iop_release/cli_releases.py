"""The commands around a release itself: its source, the build, this helper as one file, staging, old ones."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from iop_release import app, build, prune, purge, stage, sync, wrappers
from iop_release.layout import HostRoot
from iop_release.lock import alone
from iop_release.manifest import sha256
from iop_release.targets import Target

KEPT_HELPERS = 3


def _sync(options: argparse.Namespace) -> dict[str, Any]:
    if options.dry_run:
        return sync.sync(options.source, options.checkout, options.ref, dry_run=True)
    with alone(options.checkout.parent):
        return sync.sync(options.source, options.checkout, options.ref)


def _helper(options: argparse.Namespace) -> dict[str, Any]:
    path, changed = app.write(options.into)
    for old in prune.helpers(path, KEPT_HELPERS):
        old.unlink(missing_ok=True)
    return {"changed": changed, "path": str(path), "sha256": sha256(path)}


def _build(options: argparse.Namespace) -> dict[str, Any]:
    wanted = build.Wanted(tuple(map(Target.load, options.target)), tuple(map(Target.load, options.also)))
    if options.dry_run:
        return build.foresee(options.source, options.dist, wanted)
    with alone(options.dist.parent):
        manifest, changed, notes = build.build(options.source, options.dist, options.cache, wanted)
    return {"changed": changed, "notes": notes, **asdict(manifest)}


def _stage(options: argparse.Namespace) -> dict[str, Any]:
    root = HostRoot(options.root)
    changed = not stage.is_staged(root, options.dist, options.release)
    if changed and not options.dry_run:
        stage.stage(root, options.dist, group=options.group)
    if options.bin:
        changed |= wrappers.write(root, options.bin, dry_run=options.dry_run)
    return {"changed": changed}


def _prune(options: argparse.Namespace) -> dict[str, Any]:
    root = HostRoot(options.root)
    gone = prune.doomed(root, options.keep) if options.dry_run else prune.prune(root, options.keep)
    built = prune.unused(root, options.dist) if options.dist else []
    for folder in built:
        if not options.dry_run:
            shutil.rmtree(folder, ignore_errors=True)
    for tool in prune.helpers(Path(sys.argv[0]), KEPT_HELPERS) if not options.dry_run else ():  # tools are no change
        tool.unlink(missing_ok=True)
    return {"changed": bool(gone or built), "removed": gone + [str(folder) for folder in built]}


def _purge(options: argparse.Namespace) -> dict[str, Any]:
    if not options.root.is_dir():
        return {"changed": False, "removed": [], "left": []}
    with contextlib.nullcontext() if options.dry_run else alone(options.root):
        done = purge.purge(options.root.absolute(), dry_run=options.dry_run)
    return {"changed": bool(done.removed), **asdict(done)}


_Settings = dict[str, dict[str, Any]]  # argument -> keywords of add_argument
_ROOT: _Settings = {"--root": {"type": Path, "required": True, "metavar": "DIR", "help": "the host's folder"}}
_DRY: _Settings = {"--dry-run": {"action": "store_true", "help": "only tell what would be done"}}
_DIST: _Settings = {
    "--dist": {
        "type": Path,
        "required": True,
        "metavar": "PATH",
        "help": "the built release: its folder or a zip of it",
    },
    "--release": {"metavar": "ID", "help": "its id, while the zip is not here (yet)"},
    "--group": {"metavar": "NAME", "help": "a group that may read it: that of the services' account"},
}
_BIN: _Settings = {"--bin": {"type": Path, "metavar": "DIR", "help": "also write the commands into this folder"}}
_BUILD: _Settings = {
    "--source": {"type": Path, "required": True, "metavar": "DIR", "help": "the clean checkout"},
    "--dist": {"type": Path, "required": True, "metavar": "DIR", "help": "where releases are put"},
    "--cache": {"type": Path, "required": True, "metavar": "DIR", "help": "where wheelhouses are kept"},
    "--target": {
        "action": "append",
        "default": [],
        "metavar": "P:PY",
        "help": "also for this host, as linux-arm64:3.12; repeatable",
    },
    "--also": {"action": "append", "default": [], "metavar": "P:PY", "help": "the same, left out without a network"},
}
_INTO: _Settings = {"--into": {"type": Path, "required": True, "metavar": "DIR", "help": "the folder to put it in"}}
_KEEP: _Settings = {"--keep": {"type": int, "default": 3, "metavar": "N", "help": "how many of the newest stay (3)"}}
_BUILT: _Settings = {"--dist": {"type": Path, "metavar": "DIR", "help": "also remove built releases not staged here"}}
_SYNC: _Settings = {
    "--source": {"type": Path, "required": True, "metavar": "DIR", "help": "the checkout to take the commit from"},
    "--ref": {"default": "HEAD", "metavar": "REF", "help": "a commit there, or REMOTE/BRANCH (HEAD)"},
    "--checkout": {"type": Path, "required": True, "metavar": "DIR", "help": "the build checkout"},
}
COMMANDS: list[tuple[str, Any, str, _Settings]] = [
    ("sync", _sync, "Make the build checkout a commit of another one.", {**_SYNC, **_DRY}),
    ("helper", _helper, "Write this helper as one file that runs on any host.", _INTO),
    ("build", _build, "Build the checkout's commit, once.", {**_BUILD, **_DRY}),
    ("stage", _stage, "Put a built release on this host.", {**_ROOT, **_DIST, **_BIN, **_DRY}),
    ("purge", _purge, "Remove what deploys have put on this host.", {**_ROOT, **_DRY}),
    ("prune", _prune, "Remove old releases.", {**_ROOT, **_KEEP, **_BUILT, **_DRY}),
]
