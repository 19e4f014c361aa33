"""One run and its sink."""

import asyncio

import pytest

from iop.link.messages import Head
from iop.node.rack import Rack
from iop.node.work import LinkSink, OnDisconnect, Work
from iop.transport.tasks import TaskSet
from tests.fakes.node_parts import FakeFactory, RecordingLink, direct_run, pool_run, runtime, turns


def make(link: RecordingLink, *, stream: bool = True, on_disconnect: OnDisconnect = "cancel") -> Work:
    """Make a pool run's work on `link`."""
    rack = Rack(FakeFactory(), TaskSet())
    rack.apply(runtime())
    mounted = rack.get("e1")
    assert mounted is not None
    return Work(pool_run(1, stream=stream), link, mounted, on_disconnect)


async def test_the_answer_goes_to_the_link() -> None:
    """Status, headers and bytes are passed on in order and unchanged."""
    link = RecordingLink()
    sink = LinkSink(make(link))
    await sink.head(200, [("content-type", "text/plain")])
    await sink.body(b"a\xff")
    assert link.sent == [Head(run=1, status=200, headers=(("content-type", "text/plain"),)), (1, b"a\xff")]


async def test_a_discarded_answer_is_dropped_and_its_sender_released() -> None:
    """A sink that waits for credit goes on when nobody reads any more, and what follows is dropped."""
    link = RecordingLink()
    work = make(link)
    sink = LinkSink(work)
    link.stalled[1] = asyncio.Event()
    waiting = asyncio.ensure_future(sink.body(b"held"))
    await turns()
    assert not waiting.done()
    work.discard()
    await waiting
    await sink.head(200, ())
    await sink.body(b"more")
    assert link.sent == []


@pytest.mark.parametrize(
    ("policy", "stream", "outlives"),
    [
        ("cancel", True, False),
        ("cancel", False, False),
        ("cancel_streams", True, False),
        ("cancel_streams", False, True),
        ("finish", True, True),
        ("finish", False, True),
    ],
)
def test_on_disconnect(policy: OnDisconnect, stream: bool, outlives: bool) -> None:
    """The policy cancel stops all, cancel_streams stops streams only, finish stops nothing."""
    assert make(RecordingLink(), stream=stream, on_disconnect=policy).outlives_client is outlives


def test_only_the_pool_holds_a_slot() -> None:
    """A pool run holds its provider's slot; a direct run none."""
    work = make(RecordingLink())
    assert work.gated == "p1"
    assert Work(direct_run(2, adapter="e1"), RecordingLink(), work.mounted, "cancel").gated is None
