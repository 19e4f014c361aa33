"""Hand-made rounds for the judge of the smoke suite: a burst told event by event, to be bent by each test."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from iop.config.inventory import Inventory
from iop.domain.times import iso_utc
from smoke.history import Engine, Environment, Logged, Outcome, Record, Request, Round, RoundKind, Snapshot
from smoke.view import RoundView

CAPACITIES = {"a": 1, "b": 2}
NODES = {"a": "n1", "b": "n2"}
FIRST_SEQ = 41
#: wall time of the first event; each is told a tenth of a second after the one before
START = 1_800_000_000.0


def environment() -> Environment:
    """Two nodes: `n1` with a CLI agent and provider a (1 slot), `n2` with provider b (2 slots)."""
    return Environment(
        at=0.0, env="test", banner="", edge_id="edge-test", capacities=dict(CAPACITIES),
        nodes={"n1": ("a",), "n2": ("b",)}, cli_nodes=("n1",), models=("m", "agent"), smoke_model="m",
        cli_model="agent",
    )  # fmt: skip


def inventory(root: Path, **ports: int) -> Inventory:
    """An inventory like `environment()`; nobody listens on its ports unless they are given."""
    numbers = {"control": 1, "openai": 1, "nodes": 1, "admin": 1} | ports
    hosts = [
        {
            "name": node, "node_id": node, "alias": node, "platform": "linux", "arch": "arm64",
            "service_manager": "supervisor",
            "providers": [
                {"id": name, "type": "other", "category": "local_inference", "capacity": slots, "engine_port": 1}
            ],
        }
        for node, (name, slots) in zip(("n1", "n2"), CAPACITIES.items(), strict=True)
    ]  # fmt: skip
    models = [{"id": "m", "providers": dict.fromkeys(CAPACITIES, "m")}]
    return Inventory.model_validate(
        {
            "env": "test", "root": root, "edge_id": "edge-test", "ports": numbers,
            "edge_host": "n1", "control_host": "n1", "builder": "n1",
            "hosts": hosts, "models": models, "smoke_model": "m", "engine_kind": "simulator",
        }
    )  # fmt: skip


class Story:
    """Tells events and keeps the load they carry; `held` and `waiting` are the pool at this moment."""

    def __init__(self, capacities: dict[str, int] | None = None) -> None:
        self.capacities = capacities or dict(CAPACITIES)
        self.held: dict[str, str] = {}
        self.waiting: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.ids: list[str] = []

    def grant(self, request_id: str, provider: str) -> None:
        """A request gets a slot, from the line or at once."""
        self.ids += [request_id] if request_id not in self.ids else []
        self.waiting = [one for one in self.waiting if one != request_id]
        self.held[request_id] = provider
        self.tell("granted", request_id, provider)

    def queue(self, request_id: str) -> None:
        """A request joins the line."""
        self.ids.append(request_id)
        self.waiting.append(request_id)
        self.tell("queued", request_id)

    def end(self, request_id: str, outcome: str = "completed") -> None:
        """A request gives its slot back."""
        self.tell("ended", request_id, self.held.pop(request_id), outcome=outcome)

    def abandon(self, request_id: str) -> None:
        """A waiting client leaves."""
        self.waiting.remove(request_id)
        self.tell("abandoned", request_id)

    def back_in_line(self, request_id: str) -> None:
        """A grant is taken back before anything began; the request waits again."""
        provider = self.held.pop(request_id)
        self.waiting.insert(0, request_id)
        self.tell("returned", request_id, provider)

    def node(self, node_id: str, reason: str) -> None:
        """A node's state changes."""
        self.tell("node", None)
        self.events[-1] |= {"node_id": node_id, "reason": reason}

    def tell(self, kind: str, request_id: str | None, provider: str | None = None, outcome: str | None = None) -> None:
        """Append an event with the load as it is now."""
        seq = FIRST_SEQ + len(self.events)
        mine = sum(held == provider for held in self.held.values())
        slots = self.capacities.get(provider or "", 0)
        self.events.append(
            {
                "seq": seq, "at": iso_utc(START + len(self.events) / 10), "type": kind,
                "request_id": request_id, "model": "m", "provider_id": provider,
                "node_id": NODES.get(provider or ""), "outcome": outcome, "reason": None,
                "totals": {
                    "capacity": sum(self.capacities.values()), "in_flight": len(self.held), "queued": len(self.waiting)
                },
                "provider": {"capacity": slots, "in_flight": mine, "queued": 0} if provider else None,
            }
        )  # fmt: skip

    def view(
        self, kind: RoundKind = "capacity", leaver: str | None = None, cli: bool = False, node: str | None = None
    ) -> RoundView:
        """The round as it would be recorded, with every client satisfied but the one that left."""
        last = FIRST_SEQ + len(self.events) - 1
        record = Round(
            1.0, "r1", "case", kind, 64, tuple(self.ids), FIRST_SEQ - 1, last,
            cli_id="cli" if cli else None, leaver=leaver, node=node,
        )  # fmt: skip
        requests = [request(one, outcome="left" if one == leaver else "ok") for one in self.ids]
        if cli:
            requests.append(request("cli", provider=None, node="n1"))
        return RoundView(environment(), record, tuple(requests), (snapshot(), snapshot()), tuple(self.events))


def full(more: int = 1) -> Story:
    """Three slots taken by r1, r2, r3; `more` requests wait (w1, w2)."""
    story = Story()
    for request_id, provider in (("r1", "b"), ("r2", "a"), ("r3", "b")):
        story.grant(request_id, provider)
    for number in range(more):
        story.queue(f"w{number + 1}")
    return story


def burst(more: int = 1) -> Story:
    """A whole burst of 3 + `more` as it must go: all in flight, the rest in line, served in order, 0/0 at the end."""
    story = full(more)
    places = ["r1", "r2", "r3"]
    for number in range(more):
        leaving = places.pop(0)
        provider = story.held[leaving]
        story.end(leaving)
        story.grant(f"w{number + 1}", provider)
        places.append(f"w{number + 1}")
    for request_id in places:
        story.end(request_id)
    return story


def away(gone: str = "draining: smoke", *, cut: bool = False) -> Story:
    """Node n2, with two of three slots, goes under load and comes back; with `cut`, what ran there fails."""
    story = full(more=2)
    story.node("n2", gone)
    for request_id in ("r1", "r3"):
        story.end(request_id, "failed" if cut else "completed")
    story.end("r2")
    story.grant("w1", "a")  # the other node goes on
    story.node("n2", "connected")
    story.grant("w2", "b")
    story.queue("w3")
    story.grant("w3", "b")
    for request_id in ("w1", "w2", "w3"):
        story.end(request_id)
    return story


def renamed(found: Sequence[Record], round_id: str) -> list[Record]:
    """The same round under another id."""
    return [
        msgspec.structs.replace(record, round_id=round_id) if hasattr(record, "round_id") else record
        for record in found
    ]


def request(
    request_id: str, *, outcome: Outcome = "ok", error: str | None = None, provider: str | None = "a",
    node: str | None = None, stream: bool = True,
) -> Request:  # fmt: skip
    """A request as its client recorded it."""
    return Request(
        at=2.0, case="case", round_id="r1", request_id=request_id, endpoint="chat", stream=stream, outcome=outcome,
        status=200, error=error, provider=provider, node=node, queue_ms=0, seconds=1.0, text="one two",
    )  # fmt: skip


def status(**changes: Any) -> dict[str, Any]:
    """The Edge's status of an idle, whole pool; `changes` replace top-level keys."""
    counters = dict.fromkeys(
        ("admitted", "adopted", "returned", "completed", "failed", "cancelled", "in_flight", "queued"), 0
    )
    providers = [
        {"provider_id": name, "node_id": node, "state": "ready", "reason": None, "capacity": slots, **counters}
        for (name, slots), node in zip(CAPACITIES.items(), ("n1", "n2"), strict=True)
    ]
    adapters = {"n1": [{"name": "cli", "type": "cli", "max_concurrency": 0}], "n2": []}
    nodes = [
        {
            "id": node, "connected": True, "state": "connected", "version": "1", "release_id": "rel",
            "instance_id": f"of-{node}",
            "adapters": found, "direct": {"in_flight": 0},
        }
        for node, found in adapters.items()
    ]  # fmt: skip
    pool = dict.fromkeys(("received", "refused", "expired", "abandoned"), 0)
    return {
        "edge": {"id": "edge-test", "instance_id": "i1", "version": "1", "release_id": "rel"},
        "config": {"generation": 1, "sha256": "abc"},
        "totals": {"capacity": sum(CAPACITIES.values()), **counters, **pool},
        "nodes": nodes,
        "provider_snapshots": providers,
        "anomalies": {"double_release": 0, "stale_release": 0, "node_over_capacity": 0},
        "events": {"last_seq": FIRST_SEQ - 1},
    } | changes


def snapshot(**changes: Any) -> Snapshot:
    """A snapshot of round r1."""
    return Snapshot(1.5, "r1", status(**changes))


def engine(provider: str, *, peak: int, runs: int) -> Engine:
    """A simulator's counters around a round in which it started `runs`."""
    before = {"peak_offered": 0, "started": 5, "waiting": 0}
    return Engine(2.5, "r1", provider, before, {"peak_offered": peak, "started": 5 + runs, "waiting": 0})


def with_request(view: RoundView, request_id: str, **changes: Any) -> RoundView:
    """The same round with one request's record changed."""
    return replace(
        view,
        requests=tuple(
            msgspec.structs.replace(one, **changes) if one.request_id == request_id else one for one in view.requests
        ),
    )


def records(view: RoundView) -> list[Record]:
    """Everything that a worker would have written for this round, the environment included."""
    logged: Sequence[Record] = [Logged(1.7, "r1", dict(event)) for event in view.events]
    return [view.env, *view.snapshots, view.round, *view.requests, *logged, *view.engines]
