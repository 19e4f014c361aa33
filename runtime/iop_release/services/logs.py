"""Where services leave their words on systems without a journal.

A program of ours writes and rotates the file that `IOP_LOG_FILE` names; what goes past its logging (a traceback at
start, a foreign engine's lines) lands in `shared/logs/<unit>.out`, of which a start keeps the end once it has grown.
"""

from __future__ import annotations

from pathlib import Path

LOG_FILE = "IOP_LOG_FILE"
OUTPUT_BYTES = 10 << 20


def output_of(root: Path, unit: str) -> Path:
    """The file of what a service prints."""
    return root / "shared" / "logs" / f"{unit}.out"


def tail(log: Path, lines: int = 15) -> list[str]:
    """The last lines of a file; none when it is not there."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 100_000))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return []


def cut(output: Path) -> None:
    """Keep the last tenth of a file that has grown past `OUTPUT_BYTES`, in place: who writes to it appends."""
    try:
        if output.stat().st_size <= OUTPUT_BYTES:
            return
        with output.open("r+b") as file:
            file.seek(-(OUTPUT_BYTES // 10), 2)
            end = file.read()
            file.seek(0)
            file.write(end)
            file.truncate()
    except OSError:
        return


def last_words(*logs: Path) -> str:
    """The last lines of these files, indented; a note when there are none."""
    found = [line for log in logs for line in tail(log)]
    return "\n".join(f"  | {line}" for line in found) or "  | (nothing was logged)"
