"""The list of refused peers, one node's link, loopback addresses."""

import asyncio

import pytest

from iop.edge.registry import MAX_TURNED_AWAY, NodeLink, TurnedAwayList
from iop.edge.runs import RunSpec
from iop.link.messages import Bye, End, Head, ProviderHealth, Ready, RunningWork
from iop.link.session import MAX_RUN
from tests.fakes.link_peers import Recorder, hello

SPEC = RunSpec(request_id="r1", adapter="e1", operation="responses", stream=True, body=b"")


class Conn:
    """A connection that takes everything."""

    peer = ("10.0.0.7", 4242)

    def __init__(self) -> None:
        self.closed: list[str] = []

    def send(self, message) -> None:
        """Taken."""

    def offer_body(self, run, data, *, end=False) -> None:
        """Taken."""

    def close(self, reason: str) -> None:
        """Written down."""
        self.closed.append(reason)


def node_link(*running: int, events: Recorder | None = None) -> NodeLink:
    """A link whose node still runs work of these numbers."""
    work = tuple(RunningWork(run=number, request_id="old", adapter="e1") for number in running)
    return NodeLink(Conn(), hello(running=work), epoch=4, since=1.0, events=events or Recorder())


async def test_runs_are_numbered_above_adopted_work_and_wrap_around_what_is_in_use():
    """A number is unique on the link, whatever the node reports."""
    link = node_link(5, 9)
    assert [link.start(SPEC, lambda end: None).run for _ in range(2)] == [10, 11]
    link = node_link(1, MAX_RUN)
    assert link.start(SPEC, lambda end: None).run == 2


async def test_ends_go_to_their_run_to_adopted_work_or_nowhere():
    """Each end counts once; an end of nothing changes nothing."""
    events = Recorder()
    link = node_link(5, events=events)
    ends: list[End] = []
    run = link.start(SPEC, ends.append)
    link.on_message(Head(run=run.run, status=200))
    link.on_message(Head(run=99, status=200))
    link.on_body(99, b"nobody's")
    for _ in range(2):
        link.on_message(End(run=run.run, outcome="completed"))
        link.on_message(End(run=5, outcome="failed"))
    assert [end.run for end in ends] == [run.run]
    assert events.log == [("adopted_end", "n1", 5, "failed")]
    assert run.head_seen
    assert link.running == 0


async def test_a_loss_is_told_before_the_ends_of_its_runs_and_one_fault_keeps_nobody_waiting():
    """Order of the contract: the node is lost, then each run ends, the first started first."""
    events = Recorder()
    link = node_link(events=events)

    def faulty(end: End) -> None:
        events.log.append(("end", end.run, end.failure))
        raise ValueError("a fault in one owner")

    for _ in range(3):
        link.start(SPEC, faulty)
    with pytest.raises(ValueError, match="one owner"):
        link.lost("gone")
    assert events.log == [
        ("lost", "n1", 4, "gone"),
        ("end", 1, "link_lost"),
        ("end", 2, "link_lost"),
        ("end", 3, "link_lost"),
    ]


async def test_what_a_node_says_is_passed_on():
    """Ready, health and bye."""
    events = Recorder()
    link = node_link(events=events)
    ready = Ready(generation=3)
    link.on_message(ready)
    link.on_message(ProviderHealth(provider_id="p1", up=False))
    link.on_message(Bye())
    assert link.ready is ready
    assert events.log == [("ready", "n1", 3), ("health", "n1", "p1", False)]
    assert link.conn.closed == ["the node said bye"]
    assert (link.node_id, link.peer) == ("n1", "10.0.0.7:4242")
    async with asyncio.timeout(5):
        await link.close()


def test_refusals_are_counted_by_node_code_and_host():
    """Only the first of a kind is news; the last is at the end of the list."""
    refused = TurnedAwayList()
    assert refused.add("n1", "bad_token", "10.0.0.7", 1.0)
    assert refused.add("n1", "duplicate_node", "10.0.0.7", 2.0)
    assert not refused.add("n1", "bad_token", "10.0.0.7", 3.0)
    assert [(entry.code, entry.count, entry.last_at) for entry in refused] == [
        ("duplicate_node", 1, 2.0),
        ("bad_token", 2, 3.0),
    ]


def test_the_list_is_bounded_whatever_strangers_say():
    """Made-up and endless ids cannot fill the memory."""
    refused = TurnedAwayList()
    for number in range(1000):
        refused.add(f"{number:04}" + "x" * 10_000, "unknown_node", "10.0.0.7", float(number))
    entries = list(refused)
    assert len(entries) == MAX_TURNED_AWAY
    assert entries[-1].node_id.startswith("0999")
    assert len(entries[-1].node_id) == 128
    assert refused.by_code == {"unknown_node": 1000}  # a counter for ever, whatever the list has let go
