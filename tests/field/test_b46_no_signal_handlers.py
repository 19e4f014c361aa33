"""Field case B46: an event loop without `add_signal_handler`, as on Windows."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.fakes import pages
from tests.fakes.config_files import CONTROL, EDGE, NODE, changed

#: the program named first, on a loop that knows no signals
PROGRAM = """
import asyncio, importlib, sys
from iop.wiring import serve

class NoSignals(asyncio.SelectorEventLoop):
    def add_signal_handler(self, *_):
        raise NotImplementedError

serve._loop_factory = lambda: NoSignals
name, path = sys.argv[1:]
raise SystemExit(importlib.import_module(f"iop.commands.{name}").main(["--config", path, "serve"]))
"""
FILES = {
    "edge": EDGE,
    "node": changed(("127.0.0.1:18084", "127.0.0.1:1"), text=NODE),
    "control": changed(("127.0.0.1:18001", "127.0.0.1:0"), text=CONTROL),
}


@pytest.mark.parametrize("name", FILES)
async def test_b46_it_starts_and_stops_in_order(tmp_path: Path, name: str) -> None:
    """Field case B46: the ready line comes, SIGTERM ends it with 0, and nothing in the log is a traceback."""
    path = tmp_path / f"{name}.yaml"
    path.write_text(FILES[name])
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, name, str(path),
        env={**os.environ, "PYTHONPATH": str(pages.ROOT / "runtime")},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stderr is not None
    async with asyncio.timeout(60):
        ready = await child.stdout.readline()
        child.send_signal(signal.SIGTERM)
        told, code = await child.stderr.read(), await child.wait()
    assert ready.startswith(b"ready "), told
    assert (code, b"Traceback" in told) == (0, False), told


def test_b46_nobody_chooses_a_loop_that_cannot_start_programs() -> None:
    """Field case B46: no code sets a loop policy or asks for the selector loop, which on Windows runs no agent."""
    for path in sorted((pages.ROOT / "runtime").rglob("*.py")):
        assert not re.search(r"set_event_loop_policy|SelectorEventLoop", path.read_text(encoding="utf-8")), path
