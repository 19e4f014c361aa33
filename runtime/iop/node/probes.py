"""Probing the engines: at hello, then every `probe_every` seconds; what comes of it is told to the Edge."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from iop.link.messages import NodeRuntimeConfig, ProviderHealth
from iop.node.rack import Mounted, Rack
from iop.transport.tasks import TaskSet

DOWN_AFTER = 2  # bad probes in a row; one is enough when nothing good is known since the hello

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Record:
    mounted: Mounted
    known: bool = False  # a verdict was reached since the hello
    bad: int = 0
    silent: bool = False  # its last probe was not answered while work was in flight


class Probes:
    """Judges each engine instance by its probes, and reports each of its providers through `send`.

    Silence while work is in flight on the instance gives no verdict, because a busy engine may be slow to answer; the
    Edge is told of it, because a full provider of which nothing else is heard either has stopped.
    """

    def __init__(self, rack: Rack, tasks: TaskSet, send: Callable[[ProviderHealth], None]) -> None:
        self._rack = rack
        self._tasks = tasks
        self._send = send
        self._runtime = NodeRuntimeConfig(node_id="")
        self._records: dict[str, _Record] = {}
        self._loop: asyncio.Task[None] | None = None
        self.verdicts: dict[str, ProviderHealth] = {}

    def start(self, runtime: NodeRuntimeConfig, *, hello: bool) -> None:
        """Probe by this config from now on, at once and then in its rhythm. `hello`: the Edge knows nothing yet."""
        self.stop()
        self._runtime = runtime
        if hello:
            self._records.clear()
        self.verdicts = {p.id: self.verdicts[p.id] for p in runtime.providers if p.id in self.verdicts}
        self._loop = self._tasks.start(self._run(), name="probes")

    def stop(self) -> None:
        """Probe no more (no link, or leaving)."""
        if self._loop is not None:
            self._loop.cancel()
            self._loop = None

    async def round(self) -> None:
        """Probe each instance that has providers, all at the same time."""
        names = tuple(dict.fromkeys(provider.adapter for provider in self._runtime.providers))
        outcomes = await asyncio.gather(*map(self._probe, names), return_exceptions=True)
        for name, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, Exception):  # a fault of an adapter must not end the probing
                _log.error("the probe of %s failed", name, exc_info=outcome)

    async def _run(self) -> None:
        while True:
            await self.round()
            await asyncio.sleep(self._runtime.probe_every)

    async def _probe(self, name: str) -> None:
        mounted = self._rack.get(name)
        if mounted is None:
            self._tell(name, up=False, reason=self._rack.failures.get(name, f"no adapter {name}"))
            return
        record = self._records.get(name)
        if record is None or record.mounted is not mounted:
            record = self._records[name] = _Record(mounted)
        result = await mounted.adapter.probe()
        unanswered = result.silent and mounted.users > 0
        if unanswered:
            if not record.silent:
                _log.info("%s has work and does not answer its probe: %s", name, result.reason)
            self._tell_silent(name)
        record.silent = unanswered
        if result.up:
            record.known, record.bad = True, 0
            self._tell(name, up=True, reason=None)
        elif not unanswered:
            record.bad += 1
            if not record.known or record.bad >= DOWN_AFTER:
                record.known, record.bad = True, DOWN_AFTER
                self._tell(name, up=False, reason=result.reason)

    def _tell_silent(self, name: str) -> None:
        for provider in self._runtime.providers:
            if provider.adapter == name:
                known = self.verdicts.get(provider.id) or ProviderHealth(provider_id=provider.id, up=True)
                self._send(msgspec.structs.replace(known, silent=True))

    def _tell(self, name: str, *, up: bool, reason: str | None) -> None:
        for provider in self._runtime.providers:
            if provider.adapter == name:
                health = ProviderHealth(provider_id=provider.id, up=up, reason=reason)
                before = self.verdicts.get(provider.id)
                if before is None or before.up is not up:
                    _log.info(
                        "provider %s is %s%s", provider.id, "up" if up else "down", f": {reason}" if reason else ""
                    )
                self.verdicts[provider.id] = health
                self._send(health)
