"""Stand-in CLI agents as Python programs, and a look at which of their processes still live."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

_DEAF = "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
_GRANDCHILD = _DEAF + "print('up', flush=True); time.sleep(600)"
_CHILD = _DEAF + f"subprocess.Popen([sys.executable, '-c', {_GRANDCHILD!r}]); time.sleep(600)"

#: starts a child and a grandchild that ignore SIGTERM, and goes on; "up" comes on stdout once all three run
STUBBORN_TREE = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {_CHILD!r}]); "


def python(program: str) -> tuple[str, ...]:
    """Return the command line that runs `program`, without what makes an interpreter slow to start."""
    return (sys.executable, "-I", "-S", "-c", program)


def living(marker: str) -> Iterator[int]:
    """Yield the pids of living processes with `marker` in their environment (Linux)."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if marker.encode() in (entry / "environ").read_bytes():
                    yield int(entry.name)
            except OSError:
                continue
