"""A run of the benchmark as its measures see it: take turns with care for noise, and write rows."""

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.speed.processes import CALM_WAIT, QUIET, Watch, await_calm
from tests.bench.speed.rig import Facts, Rig, Running

#: what may go wrong with one peer in one measure without ending the run
FAULTS = (OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError)


@dataclass
class Session:
    """The rows so far, each also a line of `out`. `say` gets a line of progress per row.

    `patience` is how many seconds of the run may go into waiting for a calm machine and into second tries.
    """

    rig: Rig
    out: Path
    say: Callable[[str], None]
    seconds: float = 2.0
    connections: tuple[int, ...] = (1, 10, 64)
    patience: float = 900.0
    rows: list[Facts] = field(default_factory=list)

    def record(self, test: str, peer: Running, round_: int, told: str, **facts: Any) -> Facts:
        """Add a row and tell of it."""
        row = {"at": round(time.time(), 1), "test": test, "peer": peer.name, "round": round_, **facts}
        self.add(row)
        noise = "" if row.get("others_cores", 0.0) < QUIET else f"  (noisy: others use {row['others_cores']} cores)"
        self.say(f"{peer.name:14} {test:13} #{round_ + 1}  {told}{noise}")
        return row

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row that was made elsewhere."""
        self.rows.append(dict(row))
        with self.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def quietly(self, act: Callable[[], Facts]) -> Facts:
        """Run it on a calm machine and note what others took meanwhile; disturbed, once more, as patience allows.

        Returns what it returned, with `others_cores`.
        """
        began = time.monotonic()
        await_calm(wait=min(CALM_WAIT, self.patience))
        self.patience -= time.monotonic() - began
        facts = self._watched(act)
        if facts["others_cores"] >= QUIET and self.patience > 0:
            began = time.monotonic()
            await_calm(wait=min(CALM_WAIT, self.patience))
            facts = self._watched(act)
            self.patience -= time.monotonic() - began
        return facts

    @staticmethod
    def _watched(act: Callable[[], Facts]) -> Facts:
        watch = Watch()
        facts = act()
        return {**facts, "others_cores": round(watch.others(), 2)}

    def shot(self, peer: Running, *options: object) -> Facts:
        """One run of the load tool: `load`, `cpu_us_request`, `cpu_us_chunk`, and `cpu_split`, s of each process."""

        def act() -> Facts:
            before, began = peer.cpu(), time.monotonic()
            load = self.rig.shoot(peer, *options)
            split = [after - one for one, after in zip(before, peer.cpu(), strict=True)]
            cpu, passed = sum(split), time.monotonic() - began
            return {
                "load": load,
                "cpu_split": [round(one, 4) for one in split],
                "cpu_percent": round(100 * cpu / passed, 1),
                "cpu_us_request": round(1e6 * cpu / max(1, load["ok"]), 2),
                "cpu_us_chunk": round(1e6 * cpu / max(1, load["chunks"]), 3),
            }

        return self.quietly(act)
