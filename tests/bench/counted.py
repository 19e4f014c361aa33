"""Run one of our programs and count its asyncio tasks beside it: `python -P counted.py FILE MODULE [ARGUMENT …]`.

A thread writes the number of tasks that are not done to FILE once a second. The program knows nothing of it, and gives
its own exit code. Run by its path: it imports nothing of the tests.
"""

import asyncio
import contextlib
import importlib
import sys
import threading
from pathlib import Path

EVERY_S = 1.0


def tasks() -> int:
    """Tasks that are not done, of all loops of this process."""
    known = getattr(asyncio.tasks, "_all_tasks", None)  # Python 3.11
    kinds = [known] if known is not None else [asyncio.tasks._scheduled_tasks, asyncio.tasks._eager_tasks]
    for _ in range(20):
        with contextlib.suppress(RuntimeError):  # the set changed while it was read
            return sum(not task.done() for kind in kinds for task in list(kind))
    return -1


def write(file: Path, ending: threading.Event) -> None:
    """Write the number until the end."""
    while not ending.wait(EVERY_S):
        if (count := tasks()) >= 0:
            file.write_text(f"{count:6d}\n", encoding="ascii")


def main() -> int:
    """Run it; returns its exit code."""
    file, module, *arguments = sys.argv[1:]
    ending = threading.Event()
    threading.Thread(target=write, args=(Path(file), ending), name="counter", daemon=True).start()
    try:
        code: int = importlib.import_module(module).main(arguments)
    finally:
        ending.set()
    return code


if __name__ == "__main__":
    sys.exit(main())
