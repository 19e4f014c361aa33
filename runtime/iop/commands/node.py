"""`iop-node`: runs work on a host for an Edge that it dials."""

import argparse
import sys
from pathlib import Path

from iop.commands.common import CommandParser, add_serve_options, load_or_report, release_id
from iop.config.load import load_node
from iop.wiring.node import build_node
from iop.wiring.serve import serve


def main(argv: list[str] | None = None) -> int:
    """Run `iop-node`; return the exit code of the interface page."""
    args = _parser().parse_args(argv)
    loaded = load_or_report(load_node, args.config)
    if isinstance(loaded, int):
        return loaded
    assert loaded.config is not None  # no errors, so there is one
    config = loaded.config
    folder = Path(loaded.source).parent
    return serve(
        lambda: build_node(config, folder=folder, release_id=release_id()),
        log_level=args.log_level,
        log_format=args.log_format,
    )


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="iop-node", description="Runs work on this host for an Edge that it dials.")
    parser.add_argument("--config", metavar="F", type=Path, required=True, help="node.yaml")
    commands = parser.add_subparsers(dest="command", required=True)
    add_serve_options(commands.add_parser("serve", help="dial the Edge and run its work until SIGTERM"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
