"""Rounds: wait for a quiet pool, act, wait for its end, record everything, judge; repeat while the round is void."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from iop.admin.aio import AsyncAdminReader
from iop.admin.client import AdminClient
from iop.admin.ssh_trouble import SshTrouble
from iop.admin.wire import AdminRefused, AdminUnreachable
from iop.config.inventory import Inventory
from smoke.client import connect
from smoke.facts import missing
from smoke.grip import NoGrip
from smoke.history import Blocker, Engine, Environment, History, Logged, Round, RoundKind, Snapshot, now
from smoke.reach import Reach, api_key, plain
from smoke.stage import Act, Stage, Status
from smoke.verdicts import judge_round, void
from smoke.view import RoundView, Verdict

#: further attempts after a void round, then a blocker
REPEATS = 5
FIRST_TOKENS, MOST_TOKENS = 64, 2048
#: seconds the pool must be 0/0 before a burst
QUIET_S = 2.0
#: seconds to wait for a quiet pool once a whole `--quiet-wait` was in vain
AGAIN_S = 5.0
#: seconds between two looks at the status
LOOK_S = 0.1
#: seconds for the pool to become 0/0 after the last answer: engines that finish what a client left may take long
SETTLE_S = 120.0
#: seconds for any one step of a round on a slow machine with slow engines; nothing waits that long when all is well
STEP_S = 900.0


class Blocked(Exception):
    """Something outside of the suite keeps a case from being proved."""


class Bench:
    """One worker's tools: the target, the history, and how many tokens made the last burst overlap."""

    def __init__(
        self,
        inventory: Inventory,
        env: Environment,
        history: History,
        run: str,
        *,
        quiet_wait: float,
        reach: Reach | None = None,
    ) -> None:
        self.inventory = inventory
        self.env = env
        self.history = history
        self.run = run
        self.quiet_wait = quiet_wait
        self.reach = reach or plain(inventory)
        self.key = None if self.reach.trouble else api_key(inventory)
        self._tokens = FIRST_TOKENS

    async def prove(self, case: str, kind: RoundKind, act: Act, *, tokens: int = FIRST_TOKENS) -> list[Verdict]:
        """Run rounds until one is not void and return its verdicts. Raises Blocked, which is recorded as well.

        `tokens` is what the case needs at least; earlier cases may have found that more are needed.
        """
        reason = ""
        self._tokens = max(self._tokens, tokens)
        try:
            for attempt in range(1, REPEATS + 2):
                view = await self._round(case, f"smoke-{self.run}-{case}-{attempt}", kind, act)
                why = void(view)
                if why is None:
                    return judge_round(view)
                reason = why.reason
                if why.kind == "short":
                    self._tokens = min(self._tokens * 2, MOST_TOKENS)
        except (AdminUnreachable, AdminRefused) as error:
            raise self.blocked(case, str(error)) from error
        except TimeoutError as error:
            raise self.blocked(case, f"a round took longer than {STEP_S:.0f} s") from error
        except (
            ExceptionGroup
        ) as group:  # of the round's tasks: who reads the status beside the requests, who takes away
            trouble, other = group.split((AdminUnreachable, AdminRefused, NoGrip, SshTrouble))
            if trouble is None or other is not None:
                raise
            raise self.blocked(case, str(trouble.exceptions[0])) from group
        raise self.blocked(case, f"{REPEATS + 1} rounds were void; the last one: {reason}")

    def blocked(self, case: str, *reasons: str) -> Blocked:
        """Record blockers and return the exception to raise."""
        self.history.append(*(Blocker(now(), case, reason) for reason in reasons))
        return Blocked("; ".join(reasons))

    async def _round(self, case: str, round_id: str, kind: RoundKind, act: Act) -> RoundView:
        async with self._watch(round_id) as watch, connect(self.reach.openai, self.key) as client:
            before = await self._quiet(case, watch)
            engines = await self._engine_stats()
            async with asyncio.timeout(STEP_S), asyncio.TaskGroup() as group:
                stage = Stage(case, round_id, self._tokens, self.env, client, group, watch.look)
                sampler = group.create_task(watch.sample())
                await act(stage)
                await asyncio.gather(*stage.tasks)
                sampler.cancel()
            after = await self._settle(watch)
            first, last = before["events"]["last_seq"], after["events"]["last_seq"]
            events = await asyncio.to_thread(read_log, self.reach.admin, first, last)
            counters = _pairs(round_id, engines, await self._engine_stats())
        requests = tuple(task.result() for task in stage.tasks)
        ids = tuple(line.ask.request_id for line in stage.lines)
        record = Round(
            now(), round_id, case, kind, stage.tokens, ids, first, last,
            cli_id=stage.cli_id, leaver=stage.leaver, node=stage.node,
        )  # fmt: skip
        logged = [Logged(now(), round_id, event) for event in events]
        self.history.append(record, *requests, *logged, *counters)
        return RoundView(self.env, record, requests, tuple(watch.snapshots), tuple(events), counters)

    async def _quiet(self, case: str, watch: "_Watch") -> Status:
        """Wait for a whole, idle pool: all ready, and 0/0 without a new request for `QUIET_S`. Raises Blocked."""
        loop = asyncio.get_running_loop()
        end, since, received = loop.time() + self.quiet_wait, loop.time(), -1
        while True:
            status = await watch.read()
            totals, lacking = status["totals"], missing(self.env, status)
            direct = sum(node["direct"]["in_flight"] for node in status["nodes"])
            idle = totals["in_flight"] == totals["queued"] == direct == 0 and not lacking
            if not idle or totals["received"] != received:
                since, received = loop.time(), totals["received"]
            if idle and loop.time() - since >= QUIET_S:
                return await watch.look()
            if loop.time() > end:
                waited, self.quiet_wait = self.quiet_wait, min(self.quiet_wait, AGAIN_S)
                raise self.blocked(case, *(lacking or [_busy(totals, direct, waited)]))
            await asyncio.sleep(LOOK_S)

    async def _settle(self, watch: "_Watch") -> Status:
        """Wait for 0/0 and return the last status seen; whether it is 0/0 is for the verdicts."""
        end = asyncio.get_running_loop().time() + SETTLE_S
        while True:
            status = await watch.look()
            totals = status["totals"]
            if totals["in_flight"] == totals["queued"] == 0 or asyncio.get_running_loop().time() > end:
                return status
            await asyncio.sleep(LOOK_S)

    async def _engine_stats(self) -> dict[str, dict[str, int]]:
        """The simulators' counters; empty where the engines are none (another engine behind the same inventory)."""
        if self.inventory.kind != "loopback" or self.inventory.engine_kind != "simulator":
            return {}
        found = {}
        async with httpx.AsyncClient(trust_env=False, timeout=30.0) as http:
            for provider in self.inventory.providers.values():
                with contextlib.suppress(httpx.HTTPError, ValueError):
                    answer = await http.get(provider.endpoint.removesuffix("/v1") + "/stats")
                    if answer.status_code == 200 and "peak_offered" in (stats := answer.json()):
                        found[provider.id] = stats
        return found

    @asynccontextmanager
    async def _watch(self, round_id: str) -> "AsyncIterator[_Watch]":
        reader = AsyncAdminReader(self.reach.admin, timeout=30.0)
        try:
            yield _Watch(reader, self.history, round_id)
        finally:
            await reader.close()


class _Watch:
    """Reads the status; `look` also records it as a snapshot of the round."""

    def __init__(self, reader: AsyncAdminReader, history: History, round_id: str) -> None:
        self._reader = reader
        self._history = history
        self._round_id = round_id
        self.snapshots: list[Snapshot] = []

    async def read(self) -> Status:
        return await self._reader.status()

    async def look(self) -> Status:
        status = await self._reader.status()
        snapshot = Snapshot(now(), self._round_id, status)
        self.snapshots.append(snapshot)
        self._history.append(snapshot)
        return status

    async def sample(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)


def read_log(admin_url: str, first: int, last: int) -> list[dict[str, Any]]:
    """Read the events after `first` up to `last`, with a `gap` event if there is one. Raises AdminUnreachable."""
    events: list[dict[str, Any]] = []
    if last <= first:
        return events
    with AdminClient(admin_url) as client, client.events(first) as stream:
        for event in stream:
            if event.data["seq"] <= last:
                events.append(event.data)
            if event.data["seq"] >= last:
                break
    return events


def _busy(totals: dict[str, int], direct: int, waited: float) -> str:
    load = f"in flight {totals['in_flight']}, queued {totals['queued']}, direct {direct}"
    return f"other traffic: the pool was not 0/0 for {QUIET_S:.0f} s within {waited:.0f} s (--quiet-wait); now {load}"


def _pairs(round_id: str, before: dict[str, dict[str, int]], after: dict[str, dict[str, int]]) -> tuple[Engine, ...]:
    names = sorted(before.keys() & after.keys())
    return tuple(Engine(now(), round_id, name, before[name], after[name]) for name in names)
