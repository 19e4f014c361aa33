"""Whether a person edited the live config since the last deploy wrote it."""

from __future__ import annotations

import difflib
from pathlib import Path

LIVE, CANDIDATE, DEPLOYED = "edge.yaml", "edge.candidate.yaml", ".edge.yaml.deployed"


def edited(home: Path) -> str:
    """The edit as a diff; empty when the live config is what the last deploy wrote, or what the next one will write.

    The second case is a deploy that was interrupted between its two files.
    """
    live, candidate, deployed = (_text(home / name) for name in (LIVE, CANDIDATE, DEPLOYED))
    if live is None or live in (candidate, deployed):
        return ""
    name, base = (DEPLOYED, deployed) if deployed is not None else (CANDIDATE, candidate or "")
    lines = difflib.unified_diff(base.splitlines(), live.splitlines(), name, LIVE, lineterm="")
    return "\n".join(lines) or "(only line ends differ)"


def _text(path: Path) -> str | None:
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else None
