"""A burst held against the declared capacity, by the Edge's event log."""

from typing import Any

from tests.cluster.harness import Cluster
from tests.cluster.load import burst


def maxima(events: list[dict[str, Any]]) -> tuple[int, int]:
    """Highest total in flight and highest number in line over the events."""
    totals = [e["totals"] for e in events if e["totals"]]
    return max(t["in_flight"] for t in totals), max(t["queued"] for t in totals)


async def prove(made: Cluster, count: int, endpoint: str, *, tokens: int = 40, stream: bool = True) -> None:
    """Fire `count` requests at once and hold the outcome against capacity."""
    before = await made.status()
    seq = before["events"]["last_seq"]
    answers = await burst(made, count, endpoint, tokens=tokens, stream=stream)
    after = await made.calm()
    events = await made.events_after(seq, count)

    assert [a for a in answers if not a.ok] == []
    top, waiting = maxima(events)
    assert top == min(count, made.total)
    assert waiting == max(0, count - made.total)
    for provider, slots in made.capacities.items():
        mine = [e["provider"]["in_flight"] for e in events if e["provider_id"] == provider and e["provider"]]
        assert max(mine) == slots or count < made.total
    assert after["totals"]["completed"] - before["totals"]["completed"] == count
