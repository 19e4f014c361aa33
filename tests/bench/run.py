"""One chaos run at one site: load, faults by the schedule, everything seen recorded, and a look at the end."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import aiohttp
import httpx

from iop.admin.client import AdminRefused, AdminUnreachable
from tests.bench.load import Ask, Load, Mix
from tests.bench.plan import Fault
from tests.bench.record import Begun, Done, Ended, Engine, Event, History, Offered, Trouble
from tests.bench.site import Site
from tests.bench.watch import Watch
from tests.cluster.harness import eventually
from tests.fakes.hygiene import is_idle

CLIENTS, DIRECT = 22, 2
TELL_S = 5.0
#: what a fault that cannot be done raises
UNDOABLE = (AssertionError, OSError, ValueError, TimeoutError, httpx.HTTPError, AdminRefused, AdminUnreachable)


@dataclass
class ChaosRun:
    """`site` is running and whole; `tell` gets a line of progress every few seconds."""

    begun: Begun
    site: Site
    schedule: Sequence[Fault]
    history: History
    tell: Callable[[str], None]
    mix: Mix = field(default_factory=Mix)
    engines_s: float = 0.7  # seconds between two looks at the engines' counters
    calm_s: float = 60.0  # the longest until 0/0 and all ready, once the clients are done

    def __post_init__(self) -> None:
        """The clock starts now."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        self.clock: Callable[[], float] = lambda: loop.time() - start
        self.load = Load(self.site.openai, self.begun.seed, self.clock, self.history.add, self.mix)
        self.watch = Watch(self.site.admin, self.clock, self.history.add)
        self._at_target: dict[str, asyncio.Lock] = {}
        self._now: dict[int, Fault] = {}
        self._begun = 0

    def offered(self, provider: str, request_id: str, mode: str) -> None:
        """A request went to an engine."""
        self.history.add(Offered(self.clock(), provider, request_id, mode))

    async def run(self) -> None:
        """Do it all. What must not be ends up in the history."""
        self.history.add(self.begun)
        async with self.load.session() as http:
            watching = [
                asyncio.ensure_future(work)
                for work in (self.watch.follow(http), self.watch.sample(http), self._engines(), self._progress())
            ]
            try:
                await self._under_load()
                await self._look_at_the_end(http)
            finally:
                for task in watching:
                    task.cancel()
                await asyncio.gather(*watching, return_exceptions=True)

    async def _under_load(self) -> None:
        async with self.load.running(CLIENTS, DIRECT), asyncio.TaskGroup() as group:
            for fault in self.schedule:
                await asyncio.sleep(max(0.0, fault.at - self.clock()))
                group.create_task(self._fault(fault))
            await asyncio.sleep(max(0.0, self.begun.minutes * 60 - self.clock()))

    async def _fault(self, fault: Fault) -> None:
        """Begin it, wait, heal it; at one target one after the other."""
        async with self._at_target.setdefault(fault.target, asyncio.Lock()):
            began, trouble = self.clock(), None
            self._now[fault.number] = fault
            self._begun += 1
            try:
                try:
                    await self.site.begin(fault)
                    await asyncio.sleep(fault.seconds)
                finally:
                    await self.site.heal(fault)
            except UNDOABLE as error:
                trouble = f"{type(error).__name__}: {error}"[:1000]
            del self._now[fault.number]
            where = self.site.hits(fault)
            self.history.add(
                Done(
                    self.clock(), fault.number, fault.kind, fault.target, began, self.clock(), **where, trouble=trouble
                )
            )

    async def _look_at_the_end(self, http: aiohttp.ClientSession) -> None:
        """Everything healed: the pool is whole, serves as many as it has slots, and goes back to nothing."""
        await self._calm(http, "after the faults")
        slots = sum(self.begun.slots.values())
        seq = self.watch.last_seq
        asks = [
            Ask(f"chaos-{self.begun.seed}-{10**6 + n}", "chat stream", "pool", "reads", 60, 0) for n in range(slots + 1)
        ]
        answers = await asyncio.gather(*(self.load.ask(http, ask) for ask in asks))
        await self._calm(http, "after the last burst")
        await self._events_are_read()
        events = [
            one.event for one in self.history.records if isinstance(one, Event) and one.instance == self.watch.instance
        ]
        totals = [event["totals"] for event in events if event["seq"] > seq and event["totals"]]
        most, waited = (max((one[key] for one in totals), default=0) for key in ("in_flight", "queued"))
        answered = sum(one.outcome == "answered" for one in answers)
        if (answered, most, waited) != (slots + 1, slots, 1):
            words = f"of {slots + 1} at once {answered} were answered, {most} in flight and {waited} in line at most"
            self.history.add(Trouble(self.clock(), f"the last burst: {words}"))
        await self._control_sees_it(http)
        for provider, (life, stats) in (await self.site.engines()).items():
            self.history.add(Engine(self.clock(), provider, life, stats, final=True))
        self.history.add(Ended(self.clock()))

    async def _calm(self, http: aiohttp.ClientSession, when: str) -> None:
        async def calm() -> bool:
            status = await self.watch.status(http)
            return is_idle(status) and all(one["state"] == "ready" for one in status["provider_snapshots"])

        try:
            await eventually(calm, f"0/0 and all ready {when}", within=self.calm_s)
        except (AssertionError, aiohttp.ClientError, TimeoutError) as error:
            self.history.add(Trouble(self.clock(), str(error)[:1000]))

    async def _control_sees_it(self, http: aiohttp.ClientSession) -> None:
        """The Control Plane has found the Edge again, and shows the same counts."""

        async def fresh() -> bool:
            async with asyncio.timeout(5.0), http.get(self.site.control) as answer:
                seen = await answer.json()
            return seen["control"]["stale"] is False and seen["totals"] == self.watch.latest["totals"]

        try:
            await eventually(fresh, "the Control Plane shows the Edge as it is")
        except (AssertionError, aiohttp.ClientError, KeyError) as error:
            self.history.add(Trouble(self.clock(), str(error)[:1000]))

    async def _events_are_read(self) -> None:
        last = self.watch.latest.get("events", {}).get("last_seq", 0)

        async def read() -> bool:
            return self.watch.last_seq >= last

        try:
            await eventually(read, f"the events up to {last} are read")
        except AssertionError as error:
            self.history.add(Trouble(self.clock(), str(error)))

    async def _engines(self) -> None:
        while True:
            for provider, (life, stats) in (await self.site.engines()).items():
                self.history.add(Engine(self.clock(), provider, life, stats))
            await asyncio.sleep(self.engines_s)

    async def _progress(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            counts, totals = self.load.counts, self.watch.latest.get("totals", {})
            bad = sum(counts[one] for one in ("unfinished", "wrong"))
            now = ", ".join(f"{one.kind} {one.target}" for one in self._now.values()) or "none"
            self.tell(
                f"{self.clock():5.0f} s · {self.load.requests} requests: {counts['answered']} answered, "
                f"{counts['error'] + counts['cut'] + counts['refused']} errors, {counts['left']} left, {bad} bad · "
                f"in flight {totals.get('in_flight', '?')}, queued {totals.get('queued', '?')} · "
                f"faults {self._begun}, now: {now}"
            )
