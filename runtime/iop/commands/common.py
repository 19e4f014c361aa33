"""What all commands share: version text, release id, the options of `serve`. Usage errors exit 2 (argparse's own)."""

import argparse
import os

from iop import __version__
from iop.wiring.logs import LEVELS


def release_id() -> str:
    """The release this process runs, as `IOP_RELEASE_ID` tells it; `dev` when it was started from a source tree."""
    return os.environ.get("IOP_RELEASE_ID") or "dev"


def version_text() -> str:
    """The text of `--version`."""
    return f"iop {__version__} (release {release_id()})"


def add_version_option(parser: argparse.ArgumentParser) -> None:
    """Add `--version`."""
    parser.add_argument("--version", action="version", version=version_text())


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    """Add `--log-level` and `--log-format` to a `serve` command."""
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="lowest level logged on stderr")
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="form of a log line")
