"""`iop-control`: the Control Plane, a view over Edges for people and tools."""

import argparse
import sys
from pathlib import Path

from iop.commands.common import add_serve_options, add_version_option
from iop.config.load import UnreadableFile, load_control
from iop.wiring.control import ControlService
from iop.wiring.serve import serve


def main(argv: list[str] | None = None) -> int:
    """Run `iop-control`; return the exit code of the interface page."""
    args = _parser().parse_args(argv)
    try:
        loaded = load_control(args.config)
    except UnreadableFile as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for finding in loaded.findings:
        print(finding, file=sys.stderr)
    config = loaded.config
    if config is None:
        return 1
    return serve(lambda: ControlService(config), log_level=args.log_level, log_format=args.log_format)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="iop-control", description="A read-only view over Edges.")
    add_version_option(parser)
    parser.add_argument("--config", metavar="F", type=Path, required=True, help="control.yaml")
    commands = parser.add_subparsers(dest="command", required=True)
    add_serve_options(commands.add_parser("serve", help="serve the status API until SIGTERM"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
