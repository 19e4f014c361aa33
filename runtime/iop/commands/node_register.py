"""`edge node register`: a further node in edge.yaml, its token, and what its host needs."""

import argparse
import difflib
import hashlib
import json
import re
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iop.commands.common import EXIT_FINDINGS, EXIT_USAGE, CommandParser
from iop.commands.config_check import EXIT_OK, write_safely
from iop.commands.config_files import ChangedMeanwhile, replace_bytes, write_secret
from iop.commands.node_bootstrap import Engine, bootstrap, next_steps
from iop.config.append import CannotAppend, append_node
from iop.config.load import Loaded, UnreadableFile, load_edge, read_edge
from iop.config.models import EdgeConfig
from iop.config.scalars import ID_PATTERN, parse_address
from iop.config.source import parse
from iop_release.services.registration import SYSTEMS

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[CommandParser]  # noqa: SLF001 - the only name argparse gives it

#: stands in a dry-run's diff for the hash: the token is made when the file is written
NO_HASH = "0" * 64
HASH_IN_DIFF = "(made when written)"


class Refused(Exception):
    """Nothing was written; the text says why, with file:line where there is one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The file as it is and as it would be."""

    loaded: Loaded[EdgeConfig]
    text: str

    def diff(self) -> str:
        """Unified diff of the two."""
        old, new = (text.removeprefix("\ufeff").splitlines() for text in (self.loaded.text, self.text))
        name = self.loaded.source
        lines = difflib.unified_diff(old, new, name, f"{name} (with the node)", lineterm="")
        return "\n".join(lines).replace(NO_HASH, HASH_IN_DIFF) + "\n"


def add_parsers(node: "Subparsers") -> None:
    """Add `register` below `edge node`; it sets `run` and reads `args.config`, the top parser's `--config`."""
    parser = node.add_parser("register", help="add a node to the config", description=run.__doc__)
    parser.add_argument("--id", required=True, help="identity of the node's connection")
    parser.add_argument("--alias", required=True, help="name for people")
    parser.add_argument("--platform", choices=tuple(SYSTEMS), required=True, help="system of the node's host")
    parser.add_argument(
        "--edge-addr",
        type=_edge_addr,
        metavar="H:P",
        help="where that host reaches listen.nodes (default: as it stands)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the change as a diff and write nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Add a node to the config, write its token file beside it, and print what its host needs.

    Every other byte of the config stays as it is. The token is shown once; the config holds its hash. Exit codes:
    0 done; 1 refused (id taken, or the result would not pass config check): nothing was written; 2 usage, or a file
    the system cannot read or write.
    """
    if args.config is None:
        return _complain(EXIT_USAGE, "--config FILE is missing (edge --config FILE node register …)")
    if not re.fullmatch(ID_PATTERN, args.id):
        return _complain(EXIT_FINDINGS, f"--id {args.id!r} must match {ID_PATTERN}; nothing was written")
    token = None if args.dry_run else secrets.token_urlsafe(32)
    try:
        loaded = load_edge(Path(args.config))
        candidate = _candidate(args, loaded, NO_HASH if token is None else hashlib.sha256(token.encode()).hexdigest())
        token_file = Path(loaded.source).parent / f"{args.id}.token"
        if token is not None:
            _write(Path(args.config), candidate, token_file, token)
    except Refused as refusal:
        return _complain(EXIT_FINDINGS, str(refusal))
    except (UnreadableFile, OSError) as error:
        return _complain(EXIT_USAGE, f"{error}; nothing was changed")
    told = _report(args, candidate, token, token_file)
    write_safely(json.dumps(told, indent=2) + "\n" if args.json else _as_text(told))
    return EXIT_OK


def _candidate(args: argparse.Namespace, loaded: Loaded[EdgeConfig], digest: str) -> Candidate:
    if loaded.config is None:
        findings = "\n".join(str(finding) for finding in loaded.findings)
        raise Refused(f"{args.config} has errors already; correct them first\n{findings}")
    for index, node in enumerate(loaded.config.nodes):
        if node.id == args.id:
            raise Refused(f"{args.config}:{_line(loaded, index)}: the node {args.id} is declared here already")
    entry = {"id": args.id, "alias": args.alias, "token_sha256": digest}
    try:
        insertion = append_node(loaded.text, entry, Engine.of(args.id, args.platform).lines())
    except CannotAppend as error:
        raise Refused(f"{args.config}: {error}; add the node by hand: {json.dumps(entry)}") from error
    text = insertion.into(loaded.text)
    result = read_edge(text, source=loaded.source)
    if result.config is None:
        findings = "\n".join(str(finding) for finding in result.findings if finding.severity == "error")
        raise Refused(f"with this node the file would not pass config check; nothing was written\n{findings}")
    if not _only_one_more(loaded.text, text, entry):
        raise Refused(f"{args.config}: its shape is not understood; add the node by hand: {json.dumps(entry)}")
    return Candidate(loaded, text)


def _line(loaded: Loaded[EdgeConfig], index: int) -> int:
    document, _ = parse(loaded.text, loaded.source)
    return document.at(("nodes", index, "id"))[0] if document is not None else 1


def _only_one_more(before: str, after: str, entry: Mapping[str, str]) -> bool:
    """True when the new file says what the old one said, and the new node: the writing is not trusted but read back."""
    (old, _), (new, _) = parse(before, "before"), parse(after, "after")
    if old is None or new is None or not isinstance(old.data, dict):
        return False
    nodes = old.data["nodes"]
    return isinstance(nodes, list) and new.data == {**old.data, "nodes": [*nodes, dict(entry)]}


def _write(config: Path, candidate: Candidate, token_file: Path, token: str) -> None:
    before = candidate.loaded.text.encode("utf-8")
    try:
        write_secret(token_file, token)
    except FileExistsError:
        raise Refused(f"{token_file} exists already; move it away first. Nothing was written") from None
    try:
        replace_bytes(config, before, candidate.text.encode("utf-8"))
    except (ChangedMeanwhile, OSError) as error:
        token_file.unlink()
        if isinstance(error, ChangedMeanwhile):
            raise Refused(str(error)) from error
        raise


def _report(args: argparse.Namespace, candidate: Candidate, token: str | None, token_file: Path) -> dict[str, Any]:
    config = candidate.loaded.config
    assert config is not None  # a candidate is made of a file without errors
    host = bootstrap(args.id, args.platform, config, str(token_file), args.edge_addr)
    return {
        "id": args.id,
        "alias": args.alias,
        "platform": args.platform,
        "written": token is not None,
        "config": candidate.loaded.source,
        "diff": candidate.diff(),
        "token": token,
        "token_file": str(token_file),
        "node_yaml": host.node_yaml,
        "service": host.service,
        "bootstrap": host.commands,
        "notes": list(host.notes),
        "next": next_steps(args.id, args.platform, candidate.loaded.source, config),
    }


def _edge_addr(text: str) -> str:
    """argparse: an address that a node can dial."""
    try:
        address = parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if address.port == 0 or address.is_unspecified:
        raise argparse.ArgumentTypeError(f"a node cannot dial {text}: the Edge's own address and port are wanted")
    return str(address)


def _as_text(told: Mapping[str, Any]) -> str:
    if not told["written"]:
        return f"{told['diff']}dry-run: nothing was written\n"
    parts = [
        told["diff"],
        f"registered: {told['id']} in {told['config']}",
        f"token (shown once, also in {told['token_file']}): {told['token']}",
        "",
        "Next:",
        *(f"{number}. {step}" for number, step in enumerate(told["next"], start=1)),
        "",
        *(f"note: {note}" for note in told["notes"]),
        told["bootstrap"],
    ]
    return "\n".join(parts)


def _complain(code: int, message: str) -> int:
    sys.stderr.write(f"edge node register: {message}\n")
    return code
