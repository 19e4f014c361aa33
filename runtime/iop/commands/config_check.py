"""`edge config check` and `edge config schema`: findings and the JSON Schema on stdout, the verdict as exit code."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from iop.commands.common import EXIT_FINDINGS, EXIT_USAGE, CommandParser
from iop.config.load import Loaded, UnreadableFile, load_edge
from iop.config.models import EdgeConfig
from iop.config.schema import edge_schema

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[CommandParser]  # noqa: SLF001 - the only name argparse gives it

EXIT_OK = 0


def add_parsers(config: "Subparsers") -> None:
    """Add `check` and `schema` below `edge config`; each sets `run` to a function of the parsed arguments.

    `check` reads `args.config`, the top parser's `--config`.
    """
    check = config.add_parser("check", help="check the file given by --config", description=run_check.__doc__)
    check.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    check.set_defaults(run=run_check)
    schema = config.add_parser("schema", help="print the JSON Schema of edge.yaml", description=run_schema.__doc__)
    schema.set_defaults(run=run_schema)


def run_check(args: argparse.Namespace) -> int:
    """Read the file, print every finding, exit 0 (clean or warnings only), 1 (errors) or 2 (cannot be read)."""
    if args.config is None:
        sys.stderr.write("edge config check: --config FILE is missing (edge --config FILE config check)\n")
        return EXIT_USAGE
    try:
        loaded = load_edge(Path(args.config))
    except UnreadableFile as error:
        sys.stderr.write(f"edge config check: {error}\n")
        return EXIT_USAGE
    report = _as_json(loaded) if args.json else _as_text(loaded, str(args.config))
    write_safely(report)
    return EXIT_OK if loaded.ok else EXIT_FINDINGS


def run_schema(_args: argparse.Namespace) -> int:
    """Print the JSON Schema of edge.yaml."""
    write_safely(json.dumps(edge_schema(), indent=2) + "\n")
    return EXIT_OK


def write_safely(text: str) -> None:
    """Write to stdout whatever its encoding is: what it cannot show is written as an escape."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _as_json(loaded: Loaded[EdgeConfig]) -> str:
    findings = [finding.as_json() for finding in loaded.findings]
    return json.dumps({"ok": loaded.ok, "findings": findings}, indent=2) + "\n"


def _as_text(loaded: Loaded[EdgeConfig], name: str) -> str:
    lines = [str(finding) for finding in loaded.findings]
    config = loaded.config
    if config is None:
        errors = sum(finding.severity == "error" for finding in loaded.findings)
        lines.append(f"refused: {name} ({_count(errors, 'error')}, {_count(len(lines) - errors, 'warning')})")
    else:
        providers = sum(len(node.providers) for node in config.nodes)
        parts = (
            _count(len(config.nodes), "node"),
            _count(providers, "provider"),
            _count(len(config.models), "model"),
            f"sha256 {loaded.sha256}",
        )
        lines.append(f"ok: {name} ({', '.join(parts)})")
    return "\n".join(lines) + "\n"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
