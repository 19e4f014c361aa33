"""Drain leases outlive the Edge: they are noted as `<config>.drains` and taken up again by the next start.

A lease that ended meanwhile is over. A clock that was set back makes no lease longer than what was left of it.
"""

import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iop.edge.core import EdgeCore
from iop.edge.directory import find_node
from iop.wiring.notes import Note, note_path

_log = logging.getLogger(__name__)

SUFFIX = ".drains"


class DrainNote:
    """The note of the leases of `core`, whose config is the file `config`."""

    def __init__(self, config: Path, core: EdgeCore, clock: Callable[[], float] = time.time) -> None:
        path = note_path(config, SUFFIX, os.environ)
        self._note = Note(path, "drains made now end with this Edge")
        self._core = core
        self._clock = clock

    def keep(self) -> None:
        """Take up what a predecessor noted; from now on note each change."""
        self._restore()
        self._core.on_drains = self._write

    def _restore(self) -> None:
        told = self._note.read()
        if told is None:
            return
        try:
            passed = max(0.0, self._clock() - float(told["at"]))
            leases = {node: _lease(one) for node, one in dict(told["drains"]).items()}
        except (KeyError, TypeError, ValueError) as error:
            self._note.broken(error)
            return
        for node_id, (left, reason) in leases.items():
            if left > passed and find_node(self._core.config, node_id) is not None:
                self._core.door.drain(node_id, left - passed, reason)
                _log.info("node %s is drained for %.0f more seconds: %s", node_id, left - passed, reason or "no reason")

    def _write(self) -> None:
        now = self._core.loop.time()
        drains = {
            node.id: {"left_s": round(node.drain_until - now, 3), "reason": node.drain_reason}
            for node in self._core.door.snapshot().nodes
            if node.drain_until is not None
        }
        self._note.write({"at": self._clock(), "drains": drains})


def _lease(told: dict[str, Any]) -> tuple[float, str | None]:
    """Seconds that were left, and the reason. Raises KeyError, TypeError or ValueError."""
    left, reason = float(told["left_s"]), told["reason"]
    if not math.isfinite(left) or not isinstance(reason, str | None):
        raise ValueError(told)
    return left, reason
