"""What a test run starts does not outlive it."""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.cluster.harness import ROOT, eventually

#: a run that starts a child and waits; the child ignores the end of its stdin and tells its pid
RUN = """
import asyncio, sys
from tests.fakes.lifeline import ends_with_us

async def main():
    child = await asyncio.create_subprocess_exec(*ends_with_us(["sleep", "600"]))
    print(child.pid, flush=True)
    await child.wait()

asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (Debian's util-linux) is not there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_children_end_with_a_run_that_is_ended_from_outside(number: signal.Signals) -> None:
    """A run killed by a signal has no chance to end its children: the kernel does."""
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, cwd=ROOT, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert run.stdout is not None
    pid = int(await run.stdout.readline())

    async def gone() -> bool:
        try:
            return "\nState:\tZ" in (Path("/proc") / str(pid) / "status").read_text(encoding="ascii")
        except OSError:
            return True

    assert not await gone()
    run.send_signal(number)
    await run.wait()
    await eventually(gone, "the child is gone")
