"""`edge config refresh` as a person types it, against an Edge of the test."""

import asyncio
import contextlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iop.commands.edge import main


async def run_edge(*argv: str) -> tuple[int, str]:
    """Run an `edge` command beside the loop; return its exit code and its stdout."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = await asyncio.to_thread(main, list(argv))
    return code, said.getvalue()


async def refresh(admin: str, path: Path, *more: str, mode: str = "apply") -> tuple[int, dict[str, Any]]:
    """Refresh the Edge at `admin` (host:port) with a file; return exit code and JSON (empty when it printed none)."""
    argv: Sequence[str] = ("--config", str(path), "config", "refresh", "--mode", mode, "--addr", admin, "--json")
    code, said = await run_edge(*argv, *more)
    return code, json.loads(said) if said.startswith("{") else {}


async def check(path: Path) -> tuple[int, list[dict[str, Any]]]:
    """`edge config check --json` of a file: exit code and findings (none when it cannot be read)."""
    code, said = await run_edge("--config", str(path), "config", "check", "--json")
    return code, json.loads(said)["findings"] if said.startswith("{") else []
