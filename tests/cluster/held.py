"""A cluster whose Edge stands behind the holder, as on loopback and on a Mac: its sockets outlive it."""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from iop_release import holder
from tests.cluster.harness import Cluster, eventually, python_command


class HeldCluster(Cluster):
    """A cluster whose Edge runs behind the holder, which is its process here."""

    @property
    def state(self) -> dict[str, Any]:
        """What the holder last wrote."""
        found: dict[str, Any] = json.loads((self.folder / "holder.json").read_text(encoding="utf-8"))
        return found

    async def start_edge(self) -> None:
        """Start the holder, which starts the Edge by a launcher."""
        command = python_command("edge", "--config", str(self.folder / "edge.yaml"), "serve")
        launcher = self.folder / "edge.sh"
        launcher.write_text(f"#!/bin/sh\nexec {' '.join(map(shlex.quote, command))}\n", encoding="utf-8")
        launcher.chmod(0o700)
        names = ("openai", "nodes", "admin")
        at = self.processes["edge"].ready if "edge" in self.processes else dict.fromkeys(names, "127.0.0.1:0")
        listen = [part for name in names for part in ("--listen", f"{name}={at[name]}")]
        program = [sys.executable, "-I", holder.__file__, "--state", str(self.folder / "holder.json")]
        await self.spawn("edge", [*program, *listen, "--", str(launcher)])

    async def restart_edge(self, number: signal.Signals = signal.SIGHUP) -> None:
        """Have the worker replaced (or kill the Edge), and wait until another one is ready."""
        before = self.state["number"]
        if number is signal.SIGHUP:
            self.processes["edge"].signal(number)
        else:
            os.kill(self.state["worker"], number)

        async def ready() -> bool:
            return bool(self.state["number"] > before and self.state["ready"])

        await eventually(ready, "the next Edge is ready")


@contextlib.asynccontextmanager
async def held_cluster(folder: Path, **options: Any) -> AsyncIterator[HeldCluster]:
    """A running cluster behind the holder; stopped at the end, also when the test failed."""
    made = HeldCluster(folder, **options)
    try:
        await made.start()
        yield made
    except BaseException:
        await made.client.aclose()
        edge = made.processes.get("edge")
        if edge is not None and edge.child.returncode is None:
            await edge.stop()
        await asyncio.gather(*(p.kill() for p in made.processes.values() if p.child.returncode is None))
        raise
    await made.close()
