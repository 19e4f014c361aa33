"""The commands by which a run holds a host, and lets go of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from iop_release import hold
from iop_release.cli_rolling import seconds

MARGIN_S = 900.0  # for the steps around the longest one, until the next renewal


def _hold(options: argparse.Namespace) -> dict[str, Any]:
    run = hold.Run(options.run_id, options.holder, options.key)
    before = hold.take(_path(options), run, options.longest + MARGIN_S, over=options.over)
    end = {"program": [sys.executable, sys.argv[0]], "arguments": ["let-go", "--root", str(options.root)]}
    end["arguments"] += ["--run-id", options.run_id]
    return {"what": "hold", "changed": False, "before": before and before["run"], "let_go": end}


def _let_go(options: argparse.Namespace) -> dict[str, Any]:
    return {"what": "let_go", "changed": False, "ended": hold.let_go(_path(options), options.run_id)}


def _path(options: argparse.Namespace) -> Path:
    return hold.path_of(options.root, Path.home())


_Settings = dict[str, dict[str, Any]]  # argument -> keywords of add_argument
_ROOT: _Settings = {
    "--root": {"type": Path, "required": True, "metavar": "DIR", "help": "the host's folder"},
    "--run-id": {"required": True, "metavar": "ID", "help": "the run"},
}
_WHO: _Settings = {
    "--holder": {"required": True, "metavar": "TEXT", "help": "whose run, as a refused one is told"},
    "--key": {"required": True, "metavar": "TEXT", "help": "tells machine and checkout apart"},
    "--longest": {
        "type": seconds,
        "default": 600.0,
        "metavar": "TIME",
        "help": "the longest wait that the run foresees; the hold lasts 15 minutes more (10m)",
    },
    "--over": {"action": "store_true", "help": "take it over, whoever holds it"},
}
COMMANDS: list[tuple[str, Any, str, _Settings]] = [
    ("hold", _hold, "Hold this host for a run, or renew it.", {**_ROOT, **_WHO}),
    ("let-go", _let_go, "End a run's hold.", _ROOT),
]
