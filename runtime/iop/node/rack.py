"""The adapters a node has in force: built from the pushed config, anew only where it changed."""

import logging
from dataclasses import dataclass
from typing import Protocol

from iop.adapters.contract import Adapter, HasTargets
from iop.link.messages import AdapterInfo, CliTarget, EngineInstance, NodeRuntimeConfig
from iop.transport.tasks import TaskSet

CLI = "cli"  # the name of the one CLI adapter of a node

_log = logging.getLogger(__name__)
_Spec = EngineInstance | tuple[CliTarget, ...]


class AdapterFactory(Protocol):
    """Builds adapters. Raises OSError or ValueError when one cannot be built (a key file is missing, say)."""

    def cli(self, targets: tuple[CliTarget, ...]) -> Adapter:
        """Build the CLI adapter."""

    def engine(self, instance: EngineInstance) -> Adapter:
        """Build the adapter of one engine instance."""


@dataclass(eq=False, slots=True)
class Mounted:
    """An adapter in use. It is closed when it is retired and its last run has ended."""

    adapter: Adapter
    spec: _Spec
    users: int = 0
    retired: bool = False


class Rack:
    """The mounted adapters by name. `failures` tells why an adapter of the config could not be built."""

    def __init__(self, factory: AdapterFactory, tasks: TaskSet) -> None:
        self._factory = factory
        self._tasks = tasks
        self._mounted: dict[str, Mounted] = {}
        self.failures: dict[str, str] = {}

    def apply(self, runtime: NodeRuntimeConfig) -> None:
        """Mount what the config names. Kept and unchanged adapters stay; work on a replaced one runs to its end."""
        wanted: dict[str, _Spec] = {engine.name: engine for engine in runtime.engines}
        if runtime.cli_enabled:
            wanted[CLI] = runtime.cli_targets
        self.failures.clear()
        for name in [name for name, mounted in self._mounted.items() if wanted.get(name) != mounted.spec]:
            self._retire(self._mounted.pop(name))
        for name, spec in wanted.items():
            if name not in self._mounted:
                self._mount(name, spec)

    def get(self, name: str) -> Mounted | None:
        """Return the adapter of that name, None when there is none or it could not be built."""
        return self._mounted.get(name)

    def take(self, mounted: Mounted) -> None:
        """A run begins on it."""
        mounted.users += 1

    def give(self, mounted: Mounted) -> None:
        """A run on it has ended."""
        mounted.users -= 1
        self._close_if_over(mounted)

    def infos(self) -> tuple[AdapterInfo, ...]:
        """What `ready` tells: 0 = unlimited for the CLI, an instance's capacity for an engine; the CLI's targets."""
        adapters = [mounted.adapter for mounted in self._mounted.values()]
        return tuple(
            AdapterInfo(
                name=adapter.name,
                type=adapter.type,
                max_concurrency=adapter.max_concurrency,
                targets=adapter.targets() if isinstance(adapter, HasTargets) else (),
            )
            for adapter in adapters
        )

    async def look(self) -> None:
        """Have the adapters look at those of their targets that are not known to be ready."""
        for mounted in tuple(self._mounted.values()):
            if isinstance(mounted.adapter, HasTargets):
                await mounted.adapter.look()

    async def close(self) -> None:
        """Close every mounted adapter; nothing runs on them any more."""
        while self._mounted:
            await self._mounted.popitem()[1].adapter.close()

    def _mount(self, name: str, spec: _Spec) -> None:
        try:
            adapter = self._factory.cli(spec) if isinstance(spec, tuple) else self._factory.engine(spec)
        except (OSError, ValueError) as error:
            self.failures[name] = str(error) or type(error).__name__
            _log.error("adapter %s cannot be used: %s", name, self.failures[name])
        else:
            self._mounted[name] = Mounted(adapter, spec)

    def _retire(self, mounted: Mounted) -> None:
        mounted.retired = True
        self._close_if_over(mounted)

    def _close_if_over(self, mounted: Mounted) -> None:
        if mounted.retired and mounted.users == 0:
            self._tasks.start(mounted.adapter.close(), name=f"close adapter {mounted.adapter.name}")
