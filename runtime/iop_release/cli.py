"""`python -m iop_release <command> --json`: what Ansible and fab call on a host. One JSON object on stdout.

Exit codes: 0 done, 1 refused or failed (the reason on stderr), 2 usage.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from iop_release import (
    activate,
    ask,
    bootstrap,
    cli_hold,
    cli_releases,
    cli_rolling,
    edits,
    pairs,
    preflight,
    put,
    status,
)
from iop_release.errors import ReleaseError
from iop_release.layout import HostRoot
from iop_release.lock import alone
from iop_release.services.contract import Service, ServiceManager
from iop_release.services.definitions import MANAGERS
from iop_release.services.managers import manager


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    options = _parser().parse_args(arguments)
    os.umask(os.umask(0o077) | 0o022)  # many systems let a file's group write, and here that is the services' group
    try:
        result = options.run(options)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result, indent=2) if options.json else _plain(result))
    return 1 if result.get("findings") or result.get("ok") is False else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="iop_release", description="Release folders and services of one host.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text, arguments in _COMMANDS:
        command = commands.add_parser(name, help=text, description=text)
        for argument, settings in arguments.items():
            command.add_argument(argument, **settings)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        command.set_defaults(run=run)
    return parser


def _preflight(options: argparse.Namespace) -> dict[str, Any]:
    wanted = [(host or "127.0.0.1", int(port)) for host, _, port in (one.rpartition(":") for one in options.port)]
    found = preflight.check(options.home, wanted)
    told = {"warnings": preflight.warnings(options.now), "findings": [asdict(finding) for finding in found]}
    return {"changed": False, **preflight.facts(options.home), **told}


def _edits(options: argparse.Namespace) -> dict[str, Any]:
    return {"changed": False, "edit": edits.edited(options.home)}


def _put(options: argparse.Namespace) -> dict[str, Any]:
    if options.secret and options.mode != put.OWNER_ONLY:
        raise ReleaseError(f"a secret is for its owner alone: not with --mode {options.mode:04o}")
    if options.restarts and options.root is None:
        raise ReleaseError("--restarts needs --root, the folder of the host whose service it is")
    try:
        content = options.source.read_bytes() if options.source else sys.stdin.buffer.read()
        told = put.differences(options.path, content, mode=options.mode) if options.diff and not options.secret else []
        written = put.put(options.path, content, mode=options.mode, dry_run=True)
        for name in options.restarts if written and not options.dry_run else ():
            activate.mark(HostRoot(options.root), name, f"{options.path[0].name} was replaced")
        if not options.dry_run:
            put.put(options.path, content, mode=options.mode)
    except OSError as error:
        raise ReleaseError(f"cannot write {options.path[0]}: {error}") from error
    return {"changed": bool(written), "written": written, **({"diff": told} if told else {})}


def _mode(text: str) -> int:
    """A file's permissions as octal digits. Raises ValueError, as argparse wants it."""
    mode = int(text, 8)
    if mode & ~0o777 or mode & put.OWNER_ONLY != put.OWNER_ONLY:
        raise ValueError(text)
    return mode


def _ask(options: argparse.Namespace) -> dict[str, Any]:
    return {"changed": False, **ask.ask(options.url, options.timeout)}


def _plan(options: argparse.Namespace) -> dict[str, Any]:
    todo = activate.plan(HostRoot(options.root), options.release, _services(), _manager(options), options.restart)
    return todo.as_json()


def _activate(options: argparse.Namespace) -> dict[str, Any]:
    with alone(options.home):
        todo = activate.activate(
            HostRoot(options.root), options.release, _services(), _manager(options), options.restart
        )
    return todo.as_json()


def _accept(options: argparse.Namespace) -> dict[str, Any]:
    changed = [name for name in options.service if pairs.accept(HostRoot(options.root), name, options.file)]
    return {"changed": bool(changed), "accepted": changed}


def _rollback(options: argparse.Namespace) -> dict[str, Any]:
    root = HostRoot(options.root)
    with contextlib.nullcontext() if options.dry_run else alone(options.home):
        release = pairs.target(root, options.service, options.release, last_good=options.last_good)
        todo, files = pairs.rollback(root, options.service, release, _manager(options), dry_run=options.dry_run)
    return {"what": "rollback", **todo.as_json(), "files": files}


def _remove(options: argparse.Namespace) -> dict[str, Any]:
    with alone(options.home):
        gone = activate.remove(HostRoot(options.root), options.service, _manager(options), dry_run=options.dry_run)
    return {"changed": bool(gone), "removed": gone}


def _status(options: argparse.Namespace) -> dict[str, Any]:
    return status.status(HostRoot(options.root), _manager(options))


def _down(options: argparse.Namespace) -> dict[str, Any]:
    if not options.home.is_dir():
        return {"changed": False, "ended": []}
    with alone(options.home):
        ended = _manager(options).down()
    return {"changed": bool(ended), "ended": ended}


def _definitions(options: argparse.Namespace) -> dict[str, Any]:
    return bootstrap.definitions(options, [] if options.remove else _services())


def _services() -> list[Service]:
    """The services, as a JSON list on standard input."""
    try:
        data = json.load(sys.stdin)
    except ValueError as error:
        raise ReleaseError(f"standard input must hold a JSON list of services: {error}") from error
    return [Service.load(one) for one in data]


def _manager(options: argparse.Namespace) -> ServiceManager:
    return manager(options.manager, options.home)


def _plain(result: dict[str, Any]) -> str:
    return "\n".join(
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in result.items()
    )


_Settings = dict[str, dict[str, Any]]  # argument -> keywords of add_argument
_ROOT: _Settings = {"--root": {"type": Path, "required": True, "metavar": "DIR", "help": "the host's folder"}}
_MANAGER: _Settings = {
    "--manager": {"choices": MANAGERS, "default": MANAGERS[0], "help": f"what keeps services running ({MANAGERS[0]})"}
}
_HOME: _Settings = {
    "--home": {"type": Path, "required": True, "metavar": "DIR", "help": "the service manager's folder"},
    **_MANAGER,
}
_RELEASE: _Settings = {"--release": {"required": True, "metavar": "ID", "help": "the wanted release"}}
_PORT: _Settings = {
    "--port": {"action": "append", "default": [], "metavar": "H:P", "help": "an address we need; repeatable"},
    "--now": {"type": float, "metavar": "SECONDS", "help": "the time of the machine that deploys, since 1970"},
}
_DRY: _Settings = {"--dry-run": {"action": "store_true", "help": "only tell what would be done"}}
_RESTART: _Settings = {
    "--restart": {"action": "append", "default": [], "metavar": "NAME", "help": "restart this one anyhow; repeatable"}
}
_SERVICE: _Settings = {
    "--service": {"action": "append", "required": True, "metavar": "NAME", "help": "a service; repeatable"}
}
_PAIR: _Settings = {
    "--file": {"action": "append", "type": Path, "default": [], "metavar": "FILE", "help": "its config; repeatable"}
}
_BACK: _Settings = {
    "--service": {"required": True, "metavar": "NAME", "help": "the service"},
    "--release": {"metavar": "ID", "help": "which release (the last good one other than what runs)"},
    "--last-good": {"action": "store_true", "help": "the last good one, even when it is what runs"},
}
_PUT: _Settings = {
    "--path": {"action": "append", "type": Path, "required": True, "metavar": "FILE", "help": "where; repeatable"},
    "--source": {"type": Path, "metavar": "FILE", "help": "the file to take it from (standard input)"},
    "--diff": {"action": "store_true", "help": "also tell each file's text before and after"},
    "--mode": {"type": _mode, "default": put.OWNER_ONLY, "metavar": "0600", "help": "permissions (0600)"},
    "--secret": {"action": "store_true", "help": "never tell the text; the file is for its owner alone"},
    "--restarts": {
        "action": "append",
        "default": [],
        "metavar": "NAME",
        "help": "a service that read it at its start: the next plan restarts it; repeatable, with --root",
    },
    "--root": {"type": Path, "metavar": "DIR", "help": "the host's folder"},
}
_ASK: _Settings = {
    "--url": {"required": True, "metavar": "URL", "help": "what to ask"},
    "--timeout": {"type": float, "default": 5.0, "metavar": "SECONDS", "help": "how long to wait (5)"},
}
_COMMANDS: list[tuple[str, Any, str, _Settings]] = [
    ("preflight", _preflight, "What is in the way on this host.", {**_HOME, **_PORT}),
    *cli_releases.COMMANDS,
    ("edits", _edits, "Whether the live config was edited by hand.", _HOME),
    ("put", _put, "Write a file where it differs.", {**_PUT, **_DRY}),
    ("ask", _ask, "What answers at a URL.", _ASK),
    ("plan", _plan, "What activate would do; services on stdin.", {**_ROOT, **_HOME, **_RELEASE, **_RESTART}),
    ("activate", _activate, "Run the services on stdin from this release.", {**_ROOT, **_HOME, **_RELEASE, **_RESTART}),
    ("accept", _accept, "Keep what these run with as good.", {**_ROOT, **_SERVICE, **_PAIR}),
    ("rollback", _rollback, "Run a service as it ran well before.", {**_ROOT, **_HOME, **_BACK, **_DRY}),
    ("remove", _remove, "Stop these services and forget them.", {**_ROOT, **_HOME, **_SERVICE, **_DRY}),
    ("status", _status, "What this host runs.", {**_ROOT, **_HOME}),
    (
        "definitions",
        _definitions,
        "What root installs for the services on stdin.",
        {**_ROOT, **_MANAGER, **bootstrap.ARGUMENTS},
    ),
    ("down", _down, "Stop everything of this environment.", _HOME),
    *cli_rolling.COMMANDS,
    *cli_hold.COMMANDS,
]
