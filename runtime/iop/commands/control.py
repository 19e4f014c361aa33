"""`iop-control`: the Control Plane, a view over Edges for people and tools."""

import argparse
import sys
from pathlib import Path

from iop.commands.common import CommandParser, add_serve_options, load_or_report
from iop.config.load import load_control
from iop.wiring.control import ControlService
from iop.wiring.serve import serve


def main(argv: list[str] | None = None) -> int:
    """Run `iop-control`; return the exit code of the interface page."""
    args = _parser().parse_args(argv)
    loaded = load_or_report(load_control, args.config)
    if isinstance(loaded, int):
        return loaded
    assert loaded.config is not None  # no errors, so there is one
    config = loaded.config
    return serve(lambda: ControlService(config), log_level=args.log_level, log_format=args.log_format)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="iop-control", description="A read-only view over Edges.")
    parser.add_argument("--config", metavar="F", type=Path, required=True, help="control.yaml")
    commands = parser.add_subparsers(dest="command", required=True)
    add_serve_options(commands.add_parser("serve", help="serve the status API until SIGTERM"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
