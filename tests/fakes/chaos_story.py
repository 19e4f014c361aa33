"""A short, made-up chaos run in which all is well, for tests of its judge: each test spoils one thing of it."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from tests.bench.judge import Judgement, judge
from tests.bench.record import Answer, Begun, Done, Ended, Engine, Event, Life, Offered, Record, Status
from tests.bench.view import view

SLOTS = {"p": 1, "q": 2}
NODES = {"n": "p", "m": "q"}


class Story:
    """Records in order; `event` keeps the loads that its events tell."""

    def __init__(self) -> None:
        self.records: list[Record] = [
            Begun(0.0, 7, 1.0, "again", lab=False, slots=SLOTS, nodes=NODES, recovery_s=20.0),
            Life(0.0, "e1"),
        ]
        self.capacity = dict(SLOTS)
        self.held: Counter[str] = Counter()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.queued = self.seq = 0

    def event(self, t: float, kind: str, request: str | None, provider: str | None = None, **more: Any) -> None:
        """One event of the Edge's log."""
        self.seq += 1
        self.queued += {"queued": 1, "returned": 1, "abandoned": -1}.get(kind, 0)
        if kind == "granted" and more.pop("from_line", False):
            self.queued -= 1
        if provider is not None and kind in {"granted", "ended", "returned"}:
            self.held[provider] += 1 if kind == "granted" else -1
            word = {"granted": "admitted", "returned": "returned"}.get(kind, more.get("outcome"))
            self.counts[provider, word] += 1
        load = None
        if provider is not None:
            load = {"capacity": self.capacity[provider], "in_flight": self.held[provider], "queued": 0}
        totals = {"capacity": sum(self.capacity.values()), "in_flight": self.held.total(), "queued": self.queued}
        facts = {"seq": self.seq, "type": kind, "request_id": request, "provider_id": provider, "outcome": None}
        self.records.append(Event(t, "e1", {**facts, **more, "totals": totals, "provider": load}))

    def status(self, t: float, **states: str) -> None:
        """The Edge's status, by the counts so far."""
        names = ("admitted", "adopted", "completed", "failed", "cancelled", "returned")
        providers = [
            {
                "provider_id": name, "state": states.get(name, "ready"), "reason": None, "capacity": capacity,
                "in_flight": self.held[name], "over_by": max(0, self.held[name] - capacity),
                **{word: self.counts[name, word] for word in names},
            }
            for name, capacity in self.capacity.items()
        ]  # fmt: skip
        totals = {word: sum(one[word] for one in providers) for word in (*names, "in_flight")}
        line = {"refused": 0, "expired": 0, "abandoned": 1, "queued": self.queued}
        totals |= {**line, "received": sum(line.values()) + totals["admitted"] - totals["returned"]}
        nodes = [{"id": name, "direct": {"in_flight": 0}} for name in NODES]
        anomalies = {"double_release": 0, "stale_release": 0, "node_over_capacity": 0}
        self.records.append(
            Status(t, {
                "edge": {"instance_id": "e1"}, "config": {"generation": 1}, "totals": totals, "nodes": nodes,
                "provider_snapshots": providers, "anomalies": anomalies,
            })
        )  # fmt: skip

    def answer(self, request: str, began: float, ended: float, outcome: str = "answered", **more: Any) -> None:
        """How a request ended for its client."""
        facts: dict[str, Any] = {"kind": "chat", "route": "pool", "part": "reads", **more}
        self.records.append(Answer(ended, request, began=began, outcome=outcome, **facts))  # type: ignore[arg-type]

    def offered(self, t: float, provider: str, request: str) -> None:
        """A request on its way to an engine."""
        self.records.append(Offered(t, provider, request, "pass"))

    def engines(self, t: float, *, peak: int = 1, final: bool = False) -> None:
        """The counters of both engines, idle."""
        for provider in SLOTS:
            stats = {"running": 0, "waiting": 0, "peak_offered": peak, "started": 2, "completed": 1, "cancelled": 1}
            self.records.append(Engine(t, provider, 1, stats, final))


def healthy() -> Story:
    """One request that is answered, one that is given back and answered elsewhere, one that leaves the line, one that
    a killed node breaks, and an agent's; a provider that is made smaller while both of its slots are in use.
    """
    story = Story()
    story.event(1.0, "granted", "r1", "p")
    story.offered(1.0, "p", "r1")
    story.event(1.1, "granted", "r2", "q")
    story.offered(1.1, "q", "r2")
    story.event(1.2, "granted", "r4", "q")
    story.offered(1.2, "q", "r4")
    story.event(1.3, "queued", "r3")
    story.event(1.4, "abandoned", "r3")
    story.event(1.5, "direct_started", "d1", node_id="n")
    story.capacity["q"] = 1
    story.event(1.6, "capacity", None, "q")
    story.status(1.7)
    story.event(2.1, "returned", "r2", "q", reason="link lost")
    story.event(2.1, "ended", "r4", "q", outcome="failed")
    story.status(2.2, q="offline")
    story.event(2.5, "ended", "r1", "p", outcome="completed")
    story.event(2.5, "granted", "r2", "p", from_line=True)
    story.offered(2.5, "p", "r2")
    story.event(3.0, "ended", "r2", "p", outcome="completed")
    story.event(3.1, "direct_ended", "d1", node_id="n", outcome="completed")
    story.capacity["q"] = 2
    story.event(3.2, "capacity", None, "q")
    story.answer("r1", 0.9, 2.5, provider="p", status=200)
    story.answer("r2", 1.0, 3.0, provider="p", status=200)
    story.answer("r3", 1.2, 1.4, "left")
    story.answer("r4", 1.1, 2.1, "error", status=502, code="upstream_broken", provider="q", why="cut")
    story.answer("d1", 1.4, 3.1, route="direct", status=200)
    story.records.append(Done(4.0, 1, "kill node", "m", 2.0, 4.0, node="m"))
    story.status(5.0)
    story.engines(5.1, final=True)
    story.records.append(Ended(5.2))
    return story


def judged(spoil: Callable[[Story], object] | None = None) -> Judgement:
    """The judgement of the story, spoiled."""
    story = healthy()
    if spoil is not None:
        spoil(story)
    return judge(view(story.records))


def change(story: Story, wanted: Callable[[Any], bool], **fields: Any) -> None:
    """Replace fields of the first record that is wanted; those of an event's or a status's JSON among them."""
    at = next(n for n, one in enumerate(story.records) if wanted(one))
    record = story.records[at]
    if isinstance(record, Event):
        record = msgspec.structs.replace(record, event={**record.event, **fields})
    else:
        record = msgspec.structs.replace(record, **fields)
    story.records[at] = record


def drop(story: Story, wanted: Callable[[Any], bool]) -> None:
    """Take the first record that is wanted away; the numbers of the log stay whole."""
    del story.records[next(n for n, one in enumerate(story.records) if wanted(one))]
    number = 0
    for at, one in enumerate(story.records):
        if isinstance(one, Event):
            number += 1
            story.records[at] = msgspec.structs.replace(one, event={**one.event, "seq": number})
