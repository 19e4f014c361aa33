"""`iop-simulator`: an OpenAI-compatible engine with slots and a token speed, and a stand-in CLI agent."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from iop.commands.common import CommandParser, add_serve_options
from iop.simulator import agent
from iop.simulator.app import SimulatorSpec
from iop.transport.listening import split_address
from iop.wiring.serve import serve
from iop.wiring.simulator import SimulatorService


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 1 refused, 2 usage or an unreadable file."""
    arguments = _parser().parse_args(argv)
    if arguments.command == "agent":
        agent.answer(sys.stdin.buffer, sys.stdout.buffer, delay=arguments.delay)
        return 0
    try:
        api_key = None if arguments.api_key_file is None else _key(arguments.api_key_file)
    except (OSError, ValueError) as error:
        print(f"error: cannot read {arguments.api_key_file}: {error}", file=sys.stderr)
        return 2
    spec = SimulatorSpec(
        model=arguments.model,
        slots=arguments.slots,
        tokens_per_second=arguments.tokens_per_second,
        api_key=api_key,
    )
    return serve(
        lambda: SimulatorService(spec, arguments.listen),
        log_level=arguments.log_level,
        log_format=arguments.log_format,
    )


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="iop-simulator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    server = commands.add_parser("serve", help="serve the simulated engine until SIGTERM")
    server.add_argument("--listen", type=_address, default="127.0.0.1:0", metavar="H:P", help="port 0 = any free one")
    server.add_argument("--model", required=True, help="the one model id it knows")
    server.add_argument("--slots", type=_count, default=1, help="answers at once; more wait inside, in order")
    server.add_argument("--tokens-per-second", type=_speed, default=50.0, help="speed of each answer")
    server.add_argument("--api-key-file", type=Path, metavar="F", help="ask clients for the key in this file")
    add_serve_options(server)
    stand_in = commands.add_parser("agent", help="read a prompt from stdin, answer `agent: <prompt>` on stdout")
    stand_in.add_argument("--delay", type=_seconds, default=0.0, metavar="S", help="seconds before each word")
    return parser


def _key(path: Path) -> str:
    if not (key := path.read_text(encoding="utf-8").strip()):
        raise ValueError("there is no key in it")
    return key


def _address(text: str) -> str:
    split_address(text)
    return text


def _count(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError
    return value


def _speed(text: str) -> float:
    if not 0 < (value := float(text)) < float("inf"):
        raise ValueError
    return value


def _seconds(text: str) -> float:
    if not 0 <= (value := float(text)) < float("inf"):
        raise ValueError
    return value


if __name__ == "__main__":
    sys.exit(main())
