"""The ring of events and its readers."""

import asyncio
import json

from iop.domain.effects import Effect, EffectType, Load, Outcome
from iop.edge.feed import Event, Feed

KEYS = {
    "seq", "at", "type", "request_id", "model", "provider_id", "node_id", "outcome", "reason", "totals", "provider",
}  # fmt: skip


def effect(request_id="r1", type_=EffectType.GRANTED, **more):
    """Make an effect with the totals 10/1/0."""
    return Effect(type_, Load(10, 1, 0), request_id=request_id, **more)


def make(size=8):
    """Make a small feed at a fixed time."""
    return Feed(lambda: 1_700_000_000.0, size=size)


def parse(raw: bytes):
    """Split one block of the stream into its fields."""
    return dict(line.split(": ", 1) for line in raw.decode().strip().split("\n") if not line.startswith(":"))


async def blocks(feed, after, count):
    """Read `count` blocks (events and comments) of a stream."""
    got = []
    async with asyncio.timeout(20):
        async for chunk in feed.stream(after):
            got.extend(block + "\n\n" for block in chunk.decode().split("\n\n") if block)
            if len(got) >= count:
                break
    return got[:count]


def test_each_effect_becomes_one_event_with_every_key():
    """An event has all keys of the interface, absent facts are null, and loads are objects."""
    feed = make()
    feed.publish(
        (
            effect(model="m", provider_id="p1", node_id="n1", provider=Load(4, 1, 0)),
            effect(type_=EffectType.ENDED, outcome=Outcome.COMPLETED),
        )
    )
    first, second = (event.data() for event in feed.events_after(0))
    assert set(first) == set(second) == KEYS
    assert first["totals"] == {"capacity": 10, "in_flight": 1, "queued": 0}
    assert first["provider"] == {"capacity": 4, "in_flight": 1, "queued": 0}
    assert (first["seq"], first["type"], first["outcome"]) == (1, "granted", None)
    assert (second["seq"], second["outcome"], second["provider"]) == (2, "completed", None)
    assert first["at"] == "2023-11-14T22:13:20.000Z"


def test_an_event_begins_with_the_facts_of_its_effect():
    """They are taken over as they stand, so both must have them in one order."""
    assert Event._fields[2:] == Effect._fields[:9]
    assert set(Event._fields) == KEYS


def test_direct_events_name_the_node_and_carry_the_last_totals():
    """A direct event touches no provider and repeats the pool's last load."""
    feed = make()
    feed.publish((effect(),))
    feed.publish_direct("direct_started", request_id="d", model="agent", node_id="n1")
    feed.publish_direct("direct_ended", request_id="d", model="agent", node_id="n1", outcome=Outcome.FAILED, reason="x")
    started, ended = (event.data() for event in feed.events_after(1))
    assert (started["type"], started["node_id"], started["provider_id"]) == ("direct_started", "n1", None)
    assert started["totals"] == {"capacity": 10, "in_flight": 1, "queued": 0}
    assert (ended["outcome"], ended["reason"]) == ("failed", "x")


def test_the_ring_keeps_the_newest():
    """Beyond its size the oldest events go, and numbers go on."""
    feed = make(size=4)
    for number in range(6):
        feed.publish((effect(f"r{number}"),))
    assert [event.seq for event in feed.events_after(0)] == [3, 4, 5, 6]
    assert [event.seq for event in feed.events_after(5)] == [6]
    assert feed.events_after(6) == []
    assert feed.last_seq == 6


async def test_a_reader_without_an_id_gets_events_from_now_on():
    """What was published before the subscription is not sent."""
    feed = make()
    feed.publish((effect("old"),))
    stream = feed.stream(None)
    assert await anext(stream) == b": iop events after=1\n\n"
    feed.publish((effect("new"),))
    event = parse(await anext(stream))
    assert (event["id"], event["event"]) == ("2", "granted")
    assert json.loads(event["data"])["request_id"] == "new"
    await stream.aclose()


async def test_a_reader_resumes_after_its_last_id():
    """`Last-Event-ID` n is answered with n+1 and what follows, without a gap."""
    feed = make()
    feed.publish(tuple(effect(f"r{number}") for number in range(5)))
    got = await blocks(feed, 3, 3)
    assert [parse(block.encode()).get("id") for block in got] == [None, "4", "5"]
    first = await blocks(feed, 0, 2)
    assert parse(first[1].encode())["id"] == "1"


async def test_a_lost_id_gets_a_gap_first():
    """A reader whose next event was overwritten is told from where to where it is blind."""
    feed = make(size=2)
    feed.publish(tuple(effect(f"r{number}") for number in range(5)))
    got = [parse(block.encode()) for block in (await blocks(feed, 1, 4))[1:]]
    gap = json.loads(got[0]["data"])
    assert got[0]["event"] == "gap"
    assert (gap["from"], gap["to"]) == (2, 3)
    assert set(gap) > KEYS
    assert [block["id"] for block in got] == ["3", "4", "5"]


async def test_an_id_of_an_earlier_process_gets_a_gap_then_all():
    """An id above the newest can only be from before a restart: a gap, then everything of this process."""
    feed = make()
    feed.publish((effect("r1"),))
    got = [parse(block.encode()) for block in (await blocks(feed, 900, 3))[1:]]
    assert [block["event"] for block in got] == ["gap", "granted"]
    assert json.loads(got[0]["data"])["from"] == 901


async def test_a_slow_reader_is_bounded_and_learns_of_its_gap():
    """A reader that stops reading holds no events; when it goes on it gets a gap."""
    feed = make(size=4)
    stream = feed.stream(0)
    await anext(stream)
    feed.publish((effect("first"),))
    assert parse(await anext(stream))["id"] == "1"
    for number in range(10):
        feed.publish((effect(f"r{number}"),))
    gap = parse(await anext(stream))
    assert gap["event"] == "gap"
    assert json.loads(gap["data"])["to"] == 7
    assert (await anext(stream)).startswith(b"id: 8\n")
    await stream.aclose()


async def test_a_quiet_feed_sends_comments():
    """Without events a reader still hears something."""
    feed = make()
    stream = feed.stream(None, keepalive=0.01)
    await anext(stream)
    assert await anext(stream) == b": keep-alive\n\n"
    await stream.aclose()


async def test_close_ends_readers_after_the_last_event():
    """A stopping Edge ends each stream, and what was published before is still delivered."""
    feed = make()
    stream = feed.stream(None)
    await anext(stream)
    feed.publish((effect("last"),))
    feed.close()
    rest = [chunk async for chunk in stream]
    assert len(rest) == 1
    assert b'"request_id":"last"' in rest[0]


async def test_every_reader_is_woken():
    """Two readers that wait both get the event."""
    feed = make()
    streams = [feed.stream(None), feed.stream(None)]
    for stream in streams:
        await anext(stream)

    async def read(stream):
        return await anext(stream)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        tasks = [group.create_task(read(stream)) for stream in streams]
        await asyncio.sleep(0)
        feed.publish((effect("x"),))
    assert all(b'"request_id":"x"' in task.result() for task in tasks)
    for stream in streams:
        await stream.aclose()
