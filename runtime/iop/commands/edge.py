"""`edge`: the process clients talk to, and the commands that check, refresh and extend its config."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from iop.commands import common, config_check, config_refresh, node_register
from iop.config.load import load_edge
from iop.wiring.edge import LISTENERS, EdgeService
from iop.wiring.notify import Notifier
from iop.wiring.passed import Passed, WrongSocket
from iop.wiring.serve import serve


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code of the interface (0 done, 1 refused, 2 usage, 3, 4, 5)."""
    args = _parser().parse_args(argv)
    run = args.run
    code: int = run(args)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = common.CommandParser(
        prog="edge",
        description="One OpenAI-compatible address over your nodes, with honest capacity.",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="edge.yaml")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve_parser = commands.add_parser("serve", help="serve the OpenAI API, the node link and the admin API")
    common.add_serve_options(serve_parser)
    serve_parser.set_defaults(run=_serve)
    config_parser = commands.add_parser("config", help="check the config, or refresh the running Edge with it")
    config_commands = config_parser.add_subparsers(required=True, metavar="COMMAND")
    config_check.add_parsers(config_commands)
    config_refresh.add_parsers(config_commands)
    node_parser = commands.add_parser("node", help="add nodes to the config")
    node_register.add_parsers(node_parser.add_subparsers(required=True, metavar="COMMAND"))
    return parser


def _serve(args: argparse.Namespace) -> int:
    if args.config is None:
        sys.stderr.write("edge serve: --config FILE is missing (edge --config FILE serve)\n")
        return common.EXIT_USAGE
    loaded = common.load_or_report(load_edge, args.config)
    if isinstance(loaded, int):
        return loaded
    release_id = common.release_id()
    try:
        passed = Passed.take(os.environ, LISTENERS)
    except WrongSocket as error:
        sys.stderr.write(f"error: {error}\n")
        return common.EXIT_FINDINGS
    notifier = Notifier.take(os.environ)
    return serve(
        lambda: EdgeService(loaded, release_id=release_id, passed=passed, notifier=notifier),
        log_level=args.log_level,
        log_format=args.log_format,
        notifier=notifier,
        lifeline=passed.lifeline,
    )


if __name__ == "__main__":
    raise SystemExit(main())
