"""What a scripted Edge has been through before somebody looks: three minutes of traffic, and faults of all kinds."""

import itertools
import random

from iop.domain.effects import Outcome
from iop.edge.registry import TurnedAwayEntry
from iop.link.messages import TargetInfo
from tests.browser.scripted import ScriptedEdge, dev, node, provider

NAMES = ("codex", "notes", "review", "batch", "chat")


def busy_day(waiting: int = 4, *, seconds: float = 170.0) -> ScriptedEdge:
    """The dev environment after some minutes of traffic: full, with `waiting` in line. The same each time."""
    edge = ScriptedEdge(dev())
    edge.at(-3600)
    edge.boot("day")
    dice, number = random.Random(7), itertools.count(1)
    second = -seconds
    while second < -14:
        edge.at(second)
        wanted = 4 + 9 * (0.5 + 0.5 * _wave(second, seconds))
        for request in [name for name in edge.leases if dice.random() < 0.16]:
            edge.end(request, Outcome.FAILED if dice.random() < 0.02 else Outcome.COMPLETED)
        load = edge.admission.load()
        for _ in range(max(0, round(wanted) - load.in_flight - load.queued)):
            edge.ask(f"{dice.choice(NAMES)}-{next(number):03}")
        second += 0.7 + 0.6 * dice.random()
    for back in (-13.1, -11.4, -9.8, -7.2, -5.5, -4.1, -2.6, -1.2, -0.7, -0.4, -0.2, -0.1):
        edge.at(back)
        load = edge.admission.load()
        if load.in_flight + load.queued < load.capacity + waiting:
            edge.ask(f"{dice.choice(NAMES)}-{next(number):03}")
    while (load := edge.admission.load()).in_flight + load.queued < load.capacity + waiting:
        edge.ask(f"{dice.choice(NAMES)}-{next(number):03}")
    edge.at(0)
    return edge


def _wave(second: float, length: float) -> float:
    """Two humps over the length, between -1 and 1."""
    at = (second + length) / length
    return 1 - 4 * abs((2 * at) % 1 - 0.5)


def bad_day() -> ScriptedEdge:
    """Something of everything: lost, drained, silent, shrunk, refused, an agent that cannot run, foreign releases."""
    edge = ScriptedEdge([
        *dev(),
        node("attic-node", provider("attic-llama", 2)),
        node("cellar-node", provider("cellar-big", 64)),
    ])  # fmt: skip
    edge.at(-120)
    edge.boot("bad")
    edge.ask(*(f"job-{number:03}" for number in range(85)))
    edge.at(-60)
    for number in range(6):
        edge.end(f"job-{number:03}", Outcome.FAILED if number % 2 else Outcome.COMPLETED)
    edge.at(-20)
    edge.lose("attic-node")
    edge.do(
        edge.admission.drain(
            "onexplayer-lemonade-node", edge.now() + 3600, "new battery (asked for by kim)", edge.now()
        )
    )
    refused = "GET /v1/models: connection refused"
    edge.do(edge.admission.provider_health("gx10-vllm", up=False, reason=refused, now=edge.now()))
    edge.targets = {
        "mac-codex-node": (
            TargetInfo(name="codex", kind="codex", ready=False, reason="not logged in: run codex login"),
        )
    }
    edge.releases = {"cellar-node": "2026.11.02-4"}
    edge.last_error = "nodes[1].providers[0].capacity: a whole number of at least 1"
    stranger = {"node_id": "mac-codex-node", "code": "duplicate_node", "peer": "192.168.1.23"}
    edge.turned_away = [TurnedAwayEntry(**stranger, last_at=edge.now(), count=3)]
    edge.at(0)
    return edge
