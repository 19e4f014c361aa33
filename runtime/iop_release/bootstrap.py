"""What a host needs from root, once and rarely: told as data, checked, or done."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from iop_release.errors import ReleaseError
from iop_release.services import tool
from iop_release.services.contract import Service
from iop_release.services.definitions import File, Host
from iop_release.services.installed import differing, install

ARGUMENTS: dict[str, dict[str, Any]] = {
    "--user": {"required": True, "metavar": "NAME", "help": "the account that deploys"},
    "--service-user": {"metavar": "NAME", "help": "the account that services run as (--user)"},
    "--group": {"metavar": "NAME", "help": "the group that both are in (the name of --service-user)"},
    "--address": {"action": "append", "default": [], "metavar": "LISTENER=H:P", "help": "openai, nodes, admin; repeat"},
    "--credential": {"action": "append", "default": [], "metavar": "UNIT=FILE", "help": "in shared/tokens; repeatable"},
    "--agents-home": {"metavar": "DIR", "help": "home of the CLI agents that the node starts"},
    "--check": {"action": "store_true", "help": "findings where this host has something else"},
    "--install": {"action": "store_true", "help": "put them on this host; wants root"},
    "--dry-run": {"action": "store_true", "help": "with --install: only tell what would be done"},
}


def host_of(options: argparse.Namespace, services: Sequence[Service]) -> Host:
    """The host that the options and services describe. Raises `ReleaseError`."""
    service_user = options.service_user or options.user
    listeners = {name: address for service in services for name, address in service.listeners.items()}
    credentials: dict[str, list[str]] = {}
    for unit, file in _pairs(options.credential, "--credential"):
        credentials.setdefault(unit, []).append(file)
    return Host(
        root=str(options.root if options.root.is_absolute() else options.root.absolute()),
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
    host = host_of(options, services)
    files = host.files()
    if options.check:
        found = [
            {"code": "definitions", "message": f"{path} {what}", "hint": tool.BOOTSTRAP}
            for path, what in differing(host)
        ]
        return {"changed": False, "findings": found}
    if options.install:
        changed = install(host, dry_run=options.dry_run)
        commands = host.commands_after() if changed else []
        for command in commands if not options.dry_run else ():
            done = tool.call(command)
            if done.code != 0:
                raise ReleaseError(f"{' '.join(command)} failed with exit code {done.code}: {done.text}")
        return {"changed": bool(changed), "written": changed, "commands": commands}
    return {
        "changed": False,
        "folders": [_told(one) for one in host.folders()],
        "files": [_told(one) for one in files],
        "commands_after": host.commands_after(),
    }


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
