"""What all commands share: version text, release id, reading a config, the options of `serve`.

Usage errors exit 2, which is argparse's own code too.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from iop import __version__
from iop.config.load import Loaded, UnreadableFile
from iop.wiring.logs import LEVELS

EXIT_FINDINGS = 1
EXIT_USAGE = 2

T = TypeVar("T", bound=Loaded[Any])


def release_id() -> str:
    """The release this process runs, as `IOP_RELEASE_ID` tells it; `dev` when it was started from a source tree."""
    return os.environ.get("IOP_RELEASE_ID") or "dev"


def version_text() -> str:
    """The text of `--version`."""
    return f"iop {__version__} (release {release_id()})"


class CommandParser(argparse.ArgumentParser):
    """A parser with `--version`. Its sub-commands are of its kind, so that every command knows the option."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - handed on to argparse as they are
        super().__init__(*args, **options)
        self.add_argument("--version", action="version", version=version_text())


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    """Add `--log-level` and `--log-format` to a `serve` command."""
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="lowest level logged on stderr")
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="form of a log line")


def load_or_report(load: Callable[[Path], T], path: Path) -> T | int:
    """Read the config that `serve` needs, every finding told on stderr; the exit code where it cannot be used.

    1: it has errors; 2: it cannot be read.
    """
    try:
        loaded = load(path)
    except UnreadableFile as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_USAGE
    for finding in loaded.findings:
        sys.stderr.write(f"{finding}\n")
    if not loaded.ok:
        sys.stderr.write(f"refused: {path} has errors; nothing was started\n")
        return EXIT_FINDINGS
    return loaded
