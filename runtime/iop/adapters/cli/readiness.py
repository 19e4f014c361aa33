"""Which agents of a node can be run here and now: installed, startable, logged in. Asked before a target is ready."""

import asyncio
import getpass
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from iop.adapters.cli.codex_check import CodexFacts, examine
from iop.adapters.cli.shims import NotFoundError, resolve
from iop.link.messages import CliTarget, TargetInfo

#: seconds after which a request may have a target looked at again that was not ready or has failed
AGAIN_AFTER = 3.0
#: seconds after which a target that is not ready is looked at without a request
ROUND_AFTER = 30.0

NOT_CHECKED = "not checked yet"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look has shown. `command` is the target's as it can be started; `codex` for that kind only.

    `reason` says why it is not ready, and what to do.
    """

    ready: bool
    reason: str | None = None
    command: tuple[str, ...] = ()
    codex: CodexFacts | None = None


async def look(target: CliTarget, platform: str = sys.platform) -> Verdict:
    """Look at one target, from this process: its user, its environment, its files."""
    found = _look_at_files(target, platform)
    if not found.ready or target.kind == "text":
        return found
    known = CliTarget(name=target.name, kind=target.kind, command=found.command, env=target.env, cwd=target.cwd)
    return await _look_at_codex(known, platform)


def _look_at_files(target: CliTarget, platform: str) -> Verdict:
    if target.cwd is not None and not Path(target.cwd).is_dir():
        return Verdict(ready=False, reason=f"its folder {target.cwd} does not exist; make it or change cwd")
    env = {**os.environ, **target.env}
    try:
        return Verdict(ready=True, command=resolve(target.command, env, cwd=target.cwd, platform=platform))
    except NotFoundError as error:
        return Verdict(ready=False, reason=f"{error}; install it or name it in cli_commands of node.yaml")


async def _look_at_codex(target: CliTarget, platform: str) -> Verdict:
    command = target.command
    try:
        facts = await examine(target, platform)
    except TimeoutError:
        return Verdict(ready=False, reason=f"{command[0]} does not answer; run it by hand", command=command)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return Verdict(ready=False, reason=f"{command[0]} cannot be started: {why}", command=command)
    if not facts.logged_in:
        reason = f"Codex is not logged in ({facts.account}); run `codex login` as the user {user()} who runs this node"
        return Verdict(ready=False, reason=reason, command=command, codex=facts)
    return Verdict(ready=True, command=command, codex=facts)


def user() -> str:
    """Return the name of the user this process runs as."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "that this process has"


@dataclass(slots=True)
class _Known:
    verdict: Verdict | None = None
    at: float = 0.0
    doubted: bool = False


class Readiness:
    """Keeps the verdicts of the targets of one adapter. `clock` gives monotonic seconds."""

    def __init__(
        self,
        targets: Iterable[CliTarget],
        platform: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._targets = tuple(targets)
        self._platform = platform
        self._clock = clock
        self._known = {target.name: _Known() for target in self._targets}
        self._locks: dict[str, asyncio.Lock] = {}

    async def verdict(self, target: CliTarget) -> Verdict:
        """Return whether a run may begin: a good verdict as it is known, any other one looked at again in time."""
        return await self._looked(target, AGAIN_AFTER)

    async def round(self) -> None:
        """Look at each target that is not known to be ready, all at the same time."""
        await asyncio.gather(*(self._looked(target, ROUND_AFTER) for target in self._targets))

    def doubt(self, name: str) -> None:
        """A run has failed: the next one looks again."""
        self._known[name].doubted = True

    def infos(self) -> tuple[TargetInfo, ...]:
        """Return what is known, for status."""
        return tuple(self._info(target) for target in self._targets)

    async def _looked(self, target: CliTarget, after: float) -> Verdict:
        known = self._known[target.name]
        async with self._locks.setdefault(target.name, asyncio.Lock()):
            last = known.verdict
            settled = last is not None and last.ready and not known.doubted
            if last is None or (not settled and self._clock() - known.at >= after):
                last = known.verdict = await look(target, self._platform)
                known.at, known.doubted = self._clock(), False
            return last

    def _info(self, target: CliTarget) -> TargetInfo:
        verdict = self._known[target.name].verdict
        if verdict is None:
            return TargetInfo(name=target.name, kind=target.kind, ready=False, reason=NOT_CHECKED)
        return TargetInfo(name=target.name, kind=target.kind, ready=verdict.ready, reason=verdict.reason)
