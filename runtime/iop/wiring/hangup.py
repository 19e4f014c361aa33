"""SIGHUP: the Edge reads the last applied config file again, as `config refresh --mode apply` would."""

import asyncio
import logging
import signal

from iop.config.findings import Finding
from iop.edge.core import EdgeCore
from iop.edge.refresh import RefreshReply
from iop.transport.tasks import TaskSet
from iop.wiring.notify import Notifier

_log = logging.getLogger(__name__)


class ReloadOnHangup:
    """Takes SIGHUP from `install` to `close`. Systems without that signal (Windows) have `config refresh`."""

    def __init__(self, core: EdgeCore, notifier: Notifier | None = None) -> None:
        self._core = core
        self._notifier = notifier or Notifier()
        self._tasks = TaskSet()
        self._turn = asyncio.Lock()
        self._installed = False

    def install(self) -> None:
        """Take the signal, where there is one."""
        if not hasattr(signal, "SIGHUP"):
            return
        try:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._arrived)
        except NotImplementedError:  # a loop without signals, as on Windows
            return
        self._installed = True

    async def close(self) -> None:
        """Ignore the signal from now on (its default would end a process that is just finishing)."""
        if self._installed:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            self._installed = False
        await self._tasks.close()

    def _arrived(self) -> None:
        if self._core.shutting_down:
            _log.info("SIGHUP is ignored: the Edge is shutting down")
        else:
            self._tasks.start(self._reload(), name="reload on SIGHUP")

    async def _reload(self) -> None:
        async with self._turn:  # each signal reads the file anew, one after the other
            source = self._core.refresher.facts.source
            _log.info("SIGHUP: reading %s again", source)
            with self._notifier.reloading():
                reply = await self._core.refresher.reload()
            tell(source, reply)


def tell(source: str, reply: RefreshReply) -> None:
    """Log the outcome of a reload, one fact a line."""
    body = reply.body
    generation, changes = body["generation"], len(body["changes"])
    for entry in body["findings"]:
        _log.warning("%s", Finding(**entry))
    for entry in body["restart_required"]:
        _log.warning("%s: %s needs a restart: %s", source, entry["path"], entry["reason"])
    for node in body["nodes"]:
        if not node["acknowledged"]:
            _log.warning("node %s did not acknowledge the config in time", node["id"])
    if reply.status != 200 or body["restart_required"]:
        _log.warning("%s was refused: nothing was changed, generation %d keeps serving", source, generation)
    elif body["new_generation"] is None:
        _log.info("%s: nothing to do (generation %d)", source, generation)
    else:
        _log.info("applied %s: %d change(s), generation %d -> %d", source, changes, generation, body["new_generation"])
