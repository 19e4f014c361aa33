"""`edge config refresh`: post the file to a running Edge, print its plan, and end with the interface's exit code."""

import argparse
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iop.commands.common import CommandParser
from iop.commands.config_check import write_safely
from iop.config.load import Loaded, UnreadableFile, load_edge
from iop.config.models import EdgeConfig
from iop.config.scalars import parse_duration
from iop.transport.listening import join_address, split_address
from iop.transport.tls import client_context

if TYPE_CHECKING:
    from iop.admin.client import AdminClient, RefreshAnswer

    Subparsers = argparse._SubParsersAction[CommandParser]  # noqa: SLF001 - the only name argparse gives it

EXIT_OK, EXIT_REFUSED, EXIT_USAGE, EXIT_RESTART, EXIT_UNREACHABLE, EXIT_UNACKNOWLEDGED = range(6)
#: seconds beyond the nodes' time to acknowledge that the Edge's answer may take
ANSWER_MARGIN_S = 5.0
#: characters of a value shown in a line of the plan
MAX_SHOWN = 160
#: a generation that no Edge has: whatever it thinks of a candidate that was refused here, it cannot apply it
NO_GENERATION = -1


def add_parsers(config: "Subparsers") -> None:
    """Add `refresh` below `edge config`; it sets `run` and reads `args.config`, the top parser's `--config`."""
    parser = config.add_parser("refresh", help="plan or apply the file on a running Edge", description=run.__doc__)
    parser.add_argument("--mode", choices=("dry-run", "apply"), required=True, help="plan only, or all or nothing")
    parser.add_argument("--addr", type=_address, required=True, metavar="H:P", help="the Edge's admin address")
    parser.add_argument("--json", action="store_true", help="print the answer as one JSON object")
    parser.add_argument("--token-file", type=Path, metavar="T", help="file with the admin token")
    parser.add_argument("--ca-file", type=Path, metavar="CA", help="speak TLS and trust this CA")
    parser.add_argument("--expect-generation", type=int, metavar="N", help="refuse when the running one is another")
    parser.add_argument(
        "--timeout", type=_duration, default=15.0, metavar="15s", help="time for connected nodes to acknowledge"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check the file, post it to the Edge and print what would change or did.

    Exit codes: 0 done, nothing to do, or can be applied live; 1 refused; 2 usage or unreadable file; 3 restart
    required (nothing was changed); 4 Edge not reachable or token refused; 5 applied, but a node did not acknowledge.
    """
    from iop.admin.client import AdminRefused, AdminUnreachable  # its library weighs 6 MB, which `serve` has no use for

    if args.config is None:
        return _complain(EXIT_USAGE, "--config FILE is missing (edge --config FILE config refresh …)")
    try:
        loaded = load_edge(Path(args.config))
        client = _client(args, loaded)
    except (UnreadableFile, OSError, ValueError) as error:
        return _complain(EXIT_USAGE, str(error))
    with client:
        if loaded.config is None and loaded.wrong_in_itself:  # files that only the Edge can see are the Edge's to judge
            return _refused_here(args, loaded, client)
        try:
            answer = client.refresh(
                args.mode,
                loaded.text,
                loaded.source,
                expect_generation=args.expect_generation,
                ack_timeout_s=args.timeout,
            )
        except AdminUnreachable as error:
            hint = "" if args.ca_file else " With tls.admin it needs --ca-file."
            return _complain(EXIT_UNREACHABLE, f"{error}. Is the Edge running, and is --addr its admin address?{hint}")
        except AdminRefused as error:
            return _complain(EXIT_UNREACHABLE if error.status in (401, 403) else EXIT_REFUSED, error.message)
    _print(args, answer.body)
    return _exit_code(args.mode, answer)


def _exit_code(mode: str, answer: "RefreshAnswer") -> int:
    if answer.refused:
        return EXIT_REFUSED
    if answer.restart_required:
        return EXIT_RESTART
    return EXIT_UNACKNOWLEDGED if mode == "apply" and answer.unacknowledged else EXIT_OK


def _refused_here(args: argparse.Namespace, loaded: Loaded[EdgeConfig], client: "AdminClient") -> int:
    """The file has errors: print them. A refused apply is told to the Edge, if it can be reached, for its status."""
    body: dict[str, Any] = {
        "mode": args.mode,
        "generation": None,
        "new_generation": None,
        "changes": [],
        "restart_required": [],
        "findings": [finding.as_json() for finding in loaded.findings],
        "nodes": [],
    }
    if args.mode == "apply":
        from iop.admin.client import AdminRefused, AdminUnreachable

        with suppress(AdminUnreachable, AdminRefused):
            answer = client.refresh(args.mode, loaded.text, loaded.source, expect_generation=NO_GENERATION)
            body["generation"] = answer.body.get("generation")
    _print(args, body)
    return EXIT_REFUSED


def _client(args: argparse.Namespace, loaded: Loaded[EdgeConfig]) -> "AdminClient":
    """Raise OSError for a token or CA file that cannot be read, ValueError for a token that cannot be one."""
    from iop.admin.client import AdminClient

    tls = client_context(str(args.ca_file)) if args.ca_file else None
    scheme = "http" if tls is None else "https"
    return AdminClient(
        f"{scheme}://{args.addr}",
        token=_token(args.token_file, loaded),
        timeout=args.timeout + ANSWER_MARGIN_S,
        tls=tls,
    )


def _token(given: Path | None, loaded: Loaded[EdgeConfig]) -> str | None:
    """`--token-file`, else the file's `auth.admin_token_file`, else `admin.token` beside it if there is one."""
    configured = loaded.config.auth.admin_token_file if loaded.config else None
    path = given or (Path(configured) if configured else None)
    if path is None:
        path = Path(loaded.source).parent / "admin.token"
        if not path.exists():
            return None  # an Edge that runs has written one; without it the Edge's own words tell what is wrong
    token = path.read_bytes().strip()
    if not token or not token.isascii() or not token.decode("ascii").isprintable():
        raise ValueError(f"{path} holds no token: expected one line of printable ASCII")
    return token.decode("ascii")


def _print(args: argparse.Namespace, body: Mapping[str, Any]) -> None:
    write_safely(json.dumps(body, indent=2) + "\n" if args.json else "\n".join(_lines(body)) + "\n")


def _lines(body: Mapping[str, Any]) -> list[str]:
    """The answer for people, one fact a line, the verdict last."""
    lines = [_finding(finding) for finding in body["findings"]]
    lines.extend(_change(change) for change in body["changes"])
    lines.extend(f"restart required: {entry['path']}: {entry['reason']}" for entry in body["restart_required"])
    said = {True: "acknowledged", False: "did not acknowledge in time"}
    lines.extend(f"node {node['id']}: {said[bool(node['acknowledged'])]}" for node in body["nodes"])
    return [*lines, _verdict(body)]


def _verdict(body: Mapping[str, Any]) -> str:
    generation, changes = body["generation"], len(body["changes"])
    count = "1 change" if changes == 1 else f"{changes} changes"
    if any(finding["severity"] == "error" for finding in body["findings"]):
        return "refused: nothing was changed"
    if body["restart_required"]:
        return f"restart required: nothing was changed (generation {generation})"
    if not changes:
        return f"nothing to do (generation {generation})"
    if body["new_generation"] is None:
        return f"{count} can be applied live (generation {generation})"
    return f"applied {count}: generation {generation} -> {body['new_generation']}"


def _change(change: Mapping[str, Any]) -> str:
    over = f" (over by {change['over_by']} until that many end)" if change.get("over_by") else ""
    return f"{change['kind']}: {change['path']}: {_value(change['from'])} -> {_value(change['to'])}{over}"


def _value(value: object) -> str:
    text = "(none)" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def _finding(finding: Mapping[str, Any]) -> str:
    where = f" {finding['path']}" if finding["path"] else ""
    hint = f" ({finding['hint']})" if finding["hint"] else ""
    place = f"{finding['file']}:{finding['line']}:{finding['column']}"
    return f"{place}: {finding['severity']} {finding['code']}{where}: {finding['message']}{hint}"


def _complain(code: int, message: str) -> int:
    sys.stderr.write(f"edge config refresh: {message}\n")
    return code


def _address(text: str) -> str:
    try:
        return join_address(*split_address(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, not {text!r}") from error


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
