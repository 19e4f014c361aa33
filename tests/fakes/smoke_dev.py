"""Hand-made rounds of the dev environment for its report: a burst, and a node that falls silent under load."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from iop.domain.times import iso_utc
from smoke.view import RoundView
from tests.fakes.smoke_story import START, Story, environment, snapshot, status, with_request

DEV = {"mac-mlx-vllm": 3, "gx10-vllm": 4, "onexplayer-lemonade": 3}


def dev_burst(case: str) -> RoundView:
    """Eleven requests over the dev environment's ten slots, at the times of a quick machine."""
    story, ids = Story(dict(DEV)), [f"r{number}" for number in range(1, 12)]
    names = [name for name, slots in DEV.items() for _ in range(slots)]
    places = dict(zip(ids, names, strict=False))
    for request_id, name in places.items():
        story.grant(request_id, name)
    story.queue(ids[-1])
    story.end(ids[0])
    story.grant(ids[-1], names[0])
    for request_id in (*ids[1:-1], ids[-1]):
        story.end(request_id)
    filled, drained = [n * 0.012 for n in range(11)], [1.62, 1.62, *(1.63 + n * 0.014 for n in range(9)), 3.24]
    return as_dev(story.view(), case, [*filled, *drained])


def dev_cut() -> RoundView:
    """The same environment under load, whose gx10 falls silent and comes back."""
    story = Story(dict(DEV))
    for number, name in enumerate(name for name, slots in DEV.items() for _ in range(slots)):
        story.grant(f"r{number}", name)
    story.queue("w1")
    story.node("gx10-vllm-node", "offline: link lost")
    for number in range(3, 7):
        story.end(f"r{number}", "failed")
    story.end("r0")
    story.grant("w1", "mac-mlx-vllm")
    story.node("gx10-vllm-node", "connected")
    for number in range(4):
        story.grant(f"n{number}", "gx10-vllm")
    for request_id in list(story.held):
        story.end(request_id)
    view = story.view("cut", node="gx10-vllm-node")
    for number in range(3, 7):
        view = with_request(view, f"r{number}", outcome="failed", error="cut", code="upstream_unreachable")
    load, gone, again = (
        [n * 0.012 for n in range(11)],
        [2.0] * 5 + [2.4, 2.4],
        [5.2] + [5.21 + n * 0.01 for n in range(4)],
    )
    return as_dev(view, "cut", [*load, *gone, *again, *(7.0 + n * 0.02 for n in range(10))])


def as_dev(view: RoundView, case: str, times: Sequence[float]) -> RoundView:
    """The round as one of the dev environment, its events at these seconds."""
    env = msgspec.structs.replace(
        environment(), at=START, env="dev", edge_id="edge-toki-labs-dev", capacities=dict(DEV),
        smoke_model="local-chat",
        nodes={f"{name}-node": (name,) for name in DEV}, command="pytest smoke/ --target dev",
        banner="LOOPBACK, SIMULATED ENGINES: proves the software, not your machines",
    )  # fmt: skip
    told = status()
    told["edge"]["id"] = env.edge_id
    providers = [
        {**told["provider_snapshots"][0], "provider_id": name, "node_id": f"{name}-node", "capacity": slots}
        for name, slots in DEV.items()
    ]
    nodes = [{**told["nodes"][1], "id": f"{name}-node", "instance_id": name} for name in DEV]
    shown = snapshot(**told | {"provider_snapshots": providers, "nodes": nodes})
    events = tuple({**event, "at": iso_utc(START + at)} for event, at in zip(view.events, times, strict=True))
    waits = {event["request_id"]: 1500 for event in view.events if event["type"] == "queued"}
    requests = tuple(
        msgspec.structs.replace(one, case=case, queue_ms=waits.get(one.request_id, 0)) for one in view.requests
    )
    return replace(
        view, env=env, round=msgspec.structs.replace(view.round, case=case), events=events, requests=requests,
        snapshots=(shown, shown),
    )  # fmt: skip
