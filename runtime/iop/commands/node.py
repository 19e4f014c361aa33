"""`iop-node`: runs work on a host for an Edge that it dials."""

import argparse
import asyncio
import dataclasses
import json
import sys
from pathlib import Path

from iop.commands.common import (
    EXIT_FINDINGS,
    EXIT_USAGE,
    CommandParser,
    add_serve_options,
    load_or_report,
    release_id,
)
from iop.config.load import UnreadableFile, load_node
from iop.wiring.node import build_node
from iop.wiring.serve import serve


def main(argv: list[str] | None = None) -> int:
    """Run `iop-node`; return the exit code of the interface page."""
    args = _parser().parse_args(argv)
    if args.command == "doctor":
        return _doctor(args.config, as_json=args.json)
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


def _doctor(path: Path, *, as_json: bool) -> int:
    from iop.wiring.doctor import examine, unusable  # its HTTP client weighs 6 MB, which `serve` has no use for

    try:
        loaded = load_node(path)
    except UnreadableFile as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_USAGE
    for finding in loaded.findings:
        if finding.severity == "warning":
            sys.stderr.write(f"{finding}\n")
    config, folder = loaded.config, Path(loaded.source).parent
    checks = unusable(loaded.findings) if config is None else asyncio.run(examine(config, folder))
    ok = all(check.outcome != "failed" for check in checks)
    if as_json:
        print(json.dumps({"ok": ok, "checks": [dataclasses.asdict(check) for check in checks]}, indent=2))
    else:
        for check in checks:
            print(f"{check.outcome:7}  {check.name}: {check.detail}")
            if check.next is not None:
                print(f"         next: {check.next}")
    return 0 if ok else EXIT_FINDINGS


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="iop-node", description="Runs work on this host for an Edge that it dials.")
    parser.add_argument("--config", metavar="F", type=Path, required=True, help="node.yaml")
    commands = parser.add_subparsers(dest="command", required=True)
    add_serve_options(commands.add_parser("serve", help="dial the Edge and run its work until SIGTERM"))
    doctor = commands.add_parser("doctor", help="look at what this host has of all that the node needs")
    doctor.add_argument("--json", action="store_true", help="print the checks as one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
