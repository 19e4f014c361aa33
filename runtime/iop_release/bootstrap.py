"""What a host needs from root, once and rarely: told as data, checked, done, undone, or written for a person."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path, PureWindowsPath
from typing import Any

from iop_release import purge
from iop_release.errors import ReleaseError
from iop_release.services import by_hand, removal, tool
from iop_release.services.contract import Service
from iop_release.services.definitions import STORED, File, Host
from iop_release.services.installed import differing, install
from iop_release.services.managers import manager

ARGUMENTS: dict[str, dict[str, Any]] = {
    "--user": {"required": True, "metavar": "NAME", "help": "the account that deploys"},
    "--service-user": {"metavar": "NAME", "help": "the account that services run as (--user)"},
    "--group": {"metavar": "NAME", "help": "the group that both are in (the name of --service-user)"},
    "--address": {"action": "append", "default": [], "metavar": "LISTENER=H:P", "help": "openai, nodes, admin; repeat"},
    "--credential": {"action": "append", "default": [], "metavar": "UNIT=FILE", "help": "in shared/tokens; repeatable"},
    "--agents-home": {"metavar": "DIR", "help": "home of the CLI agents that the node starts"},
    "--check": {"action": "store_true", "help": "findings where this host has something else"},
    "--install": {"action": "store_true", "help": "put them on this host; wants root"},
    "--into": {"type": Path, "metavar": "DIR", "help": "write them for a person to install (windows_task)"},
    "--remove": {"action": "store_true", "help": "take them off this host; wants root, and no services on stdin"},
    "--purge": {"action": "store_true", "help": "with --remove: the host's folder as well"},
    "--dry-run": {"action": "store_true", "help": "only tell what would be done"},
}


def host_of(options: argparse.Namespace, services: Sequence[Service]) -> Host:
    """The host that the options and services describe. Raises `ReleaseError`."""
    service_user = options.service_user or options.user
    listeners = {name: address for service in services for name, address in service.listeners.items()}
    credentials: dict[str, list[str]] = {}
    for unit, file in _pairs(options.credential, "--credential"):
        credentials.setdefault(unit, []).append(file)
    return Host(
        root=_root(options),
        manager=options.manager,
        user=options.user,
        service_user=service_user,
        group=options.group or _own_group(service_user),
        services={service.name: service.stop_wait_s for service in services},
        addresses={**listeners, **dict(_pairs(options.address, "--address"))},
        credentials=credentials,
        agents_home=options.agents_home or (_home(service_user) if options.manager == "launchd" else None),
    )


def definitions(options: argparse.Namespace, services: Sequence[Service]) -> dict[str, Any]:
    """The `definitions` command."""
    if options.remove:
        return _removed(options)
    host = host_of(options, services)
    files = host.files()
    if options.check:
        found = [
            {"code": "definitions", "message": f"{path} {what}", "hint": tool.BOOTSTRAP}
            for path, what in differing(host)
        ]
        return {"changed": False, "findings": found}
    if options.install:
        again = options.root.joinpath(*STORED).is_file()
        changed = install(host, dry_run=options.dry_run)
        commands = host.commands_after(changed if again else ()) if changed else []
        for command in commands if not options.dry_run else ():
            done = tool.call(command)
            if done.code != 0:
                raise ReleaseError(f"{' '.join(command)} failed with exit code {done.code}: {done.text}")
        return {"changed": bool(changed), "written": changed, "commands": commands}
    if options.into:
        written = by_hand.write(host, options.into, dry_run=options.dry_run)
        return {"changed": bool(written), "written": written}
    return {
        "changed": False,
        "folders": [_told(one) for one in host.folders()],
        "files": [_told(one) for one in files],
        "commands_after": host.commands_after(),
    }


def _removed(options: argparse.Namespace) -> dict[str, Any]:
    root, dry = options.root.absolute(), options.dry_run
    done = removal.remove(manager(options.manager, root), options.manager, root, dry_run=dry)
    gone = purge.purge_all(root, dry_run=dry) if options.purge else purge.Purged()
    return {"changed": bool(done or gone.removed), "removed": done + gone.removed, "left": gone.left}


def _root(options: argparse.Namespace) -> str:
    """The host's folder; that of a Windows host is also named where no Windows is."""
    if options.manager == "windows_task" and PureWindowsPath(options.root).is_absolute():
        return str(options.root)
    return str(options.root.absolute())


def _own_group(user: str) -> str:
    """The account's own group, where the account is there already."""
    try:
        import grp  # neither is there on Windows
        import pwd

        return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name
    except (ImportError, KeyError):
        return user


def _home(user: str) -> str | None:
    """The account's home: launchd tells a daemon none, and an agent's login lies there."""
    try:
        return str(Path(f"~{user}").expanduser())
    except RuntimeError:  # no such account yet
        return None


def _told(file: File) -> dict[str, Any]:
    """As JSON: what is usual (no content of a folder, UTF-8) is left out."""
    return {key: value for key, value in asdict(file).items() if value not in (None, "utf-8")}


def _pairs(given: Iterable[str], option: str) -> list[tuple[str, str]]:
    found = [tuple(one.split("=", 1)) for one in given]
    if any(len(one) != 2 or not all(one) for one in found):
        raise ReleaseError(f"{option} wants NAME=VALUE, not {', '.join(given)}")
    return [(one[0], one[1]) for one in found]
