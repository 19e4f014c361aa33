"""The commands that ask an Edge's admin port: what a rolling deploy does between plan and rollback."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from iop_release import rolling
from iop_release.admin import DEPLOYER, Admin

_Settings = dict[str, dict[str, Any]]  # argument -> keywords of add_argument


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def seconds(text: str) -> float:
    """A duration as the inventory writes it (`500ms 15s 2m 1h`), or bare seconds. Raises `ArgumentTypeError`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"not a duration: {text!r} (write 500ms, 15s, 2m or 1h)")
    return float(found[1]) * _UNITS[found[2]]


def _admin(options: argparse.Namespace) -> Admin:
    return Admin(options.url, options.token_file)


def _node(options: argparse.Namespace) -> dict[str, Any]:
    return {"changed": False, **rolling.before(_admin(options), options.node)}


def _drain(options: argparse.Namespace) -> dict[str, Any]:
    found = rolling.drain(
        _admin(options),
        options.node,
        lease_s=options.lease,
        wait_s=options.wait,
        reason=options.reason,
        by=options.by,
    )
    return {"what": "drain", **found}


def _undrain(options: argparse.Namespace) -> dict[str, Any]:
    _admin(options).undrain(options.node)
    return {"changed": True}


def _gate(options: argparse.Namespace) -> dict[str, Any]:
    admin = _admin(options)
    found = rolling.gate(admin, options.node, options.release, not_instance=options.not_instance, wait_s=options.wait)
    return {"what": "gate", "changed": False, **found}


def _check(options: argparse.Namespace) -> dict[str, Any]:
    found = rolling.check(_admin(options), options.node, wait_s=options.wait, skip=options.skip)
    return {"what": "check", "changed": False, **found}


_URL: _Settings = {
    "--url": {"required": True, "metavar": "URL", "help": "the Edge's admin port"},
    "--token-file": {"type": Path, "metavar": "FILE", "help": "file with the admin token"},
}
_NODE: _Settings = {"--node": {"required": True, "metavar": "ID", "help": "the node's id"}}
_WAIT: _Settings = {
    "--wait": {"type": seconds, "default": 60.0, "metavar": "TIME", "help": "how long at most, as 90 or 10m (60)"},
}
_LEASE: _Settings = {
    "--lease": {"type": seconds, "default": 300.0, "metavar": "TIME", "help": "the lease's length (300)"},
    "--reason": {"default": "deploy", "metavar": "TEXT", "help": "why, as status shows it"},
    "--by": {
        "default": DEPLOYER,
        "metavar": "TEXT",
        "help": "who asks (iop-deploy, which leaves others' leases alone)",
    },
}
_WANTED: _Settings = {
    "--release": {"required": True, "metavar": "ID", "help": "the wanted release"},
    "--not-instance": {"metavar": "ID", "help": "the instance that was restarted"},
}
_SKIP: _Settings = {
    "--skip": {"action": "append", "default": [], "metavar": "ID", "help": "a provider to leave out; repeatable"},
}
COMMANDS: list[tuple[str, Any, str, _Settings]] = [
    ("node", _node, "A node as the Edge sees it before a roll.", {**_URL, **_NODE}),
    ("drain", _drain, "Take a drain lease and wait until nothing runs.", {**_URL, **_NODE, **_LEASE, **_WAIT}),
    ("undrain", _undrain, "End a node's drain.", {**_URL, **_NODE}),
    ("gate", _gate, "Wait until the Edge sees the wanted node.", {**_URL, **_NODE, **_WANTED, **_WAIT}),
    ("check", _check, "One answer of each provider of a node, drained or not.", {**_URL, **_NODE, **_SKIP, **_WAIT}),
]
