"""`python -m iop_trust keep|rotate`: what the deploy runs on the control machine, and a person to replace a secret.

Exit codes: 0 done, 1 refused or failed (the reason on stderr), 2 usage. No secret is ever printed.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from iop_trust.errors import TrustError
from iop_trust.keep import Wanted, keep
from iop_trust.rotate import Rotation, rotate
from iop_trust.store import Store


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    options = _parser().parse_args(arguments)
    store = Store(options.folder, dry_run=options.dry_run)
    try:
        with store.alone():
            result: dict[str, Any] = options.run(store, options, datetime.now(UTC))
    except TrustError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the reason
        return 1
    print(json.dumps(result, indent=2) if options.json else _plain(result))  # noqa: T201 - the answer
    return 0


def _keep(store: Store, options: argparse.Namespace, now: datetime) -> dict[str, Any]:
    wanted = Wanted(options.name or store.path.parent.name, options.node, options.address)
    return keep(store, wanted, now).as_json(store)


def _rotate(store: Store, options: argparse.Namespace, now: datetime) -> dict[str, Any]:
    wanted = Rotation(
        node_ids=options.node,
        all_nodes=options.all_nodes,
        admin=options.admin,
        edge=options.edge,
        ca=options.ca,
        retire_ca=options.retire_ca,
    )
    written = rotate(store, wanted, options.name or store.path.parent.name, now)
    if not written:
        raise TrustError("nothing to replace was named", "see python -m iop_trust rotate --help")
    return {"changed": True, "written": written, "next": "deploy: every host gets what is new"}


def _plain(result: dict[str, Any]) -> str:
    return "\n".join(
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in result.items()
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="iop_trust", description="Authority, certificates and tokens of an environment."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("keep", help="make what is missing or due", description="Make what is missing or due.")
    one.add_argument("--node", action="append", default=[], metavar="ID", help="a node that needs a token; repeatable")
    one.add_argument(
        "--address", action="append", default=[], metavar="A", help="name or address of the Edge; repeatable"
    )
    one.set_defaults(run=_keep)
    two = commands.add_parser("rotate", help="replace a secret", description="Replace a secret; then deploy.")
    two.add_argument("--node", action="append", default=[], metavar="ID", help="the token of this node; repeatable")
    for option, text in (
        ("--all-nodes", "the tokens of all nodes"),
        ("--admin", "the token of the admin API"),
        ("--edge", "the key of the Edge"),
        ("--ca", "the authority: the old one is trusted, too, until --retire-ca"),
        ("--retire-ca", "trust the newest authority only"),
    ):
        two.add_argument(option, action="store_true", help=text)
    two.set_defaults(run=_rotate)
    for command in (one, two):
        command.add_argument("--folder", type=Path, required=True, metavar="DIR", help="build/<env>-runtime/trust")
        command.add_argument("--name", metavar="NAME", help="stands in the authority's name (default: the folder's)")
        command.add_argument("--dry-run", action="store_true", help="only tell what would be done")
        command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser
