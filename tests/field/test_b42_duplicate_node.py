"""Field case B42: the same node id twice, and a late close of the old link, over real sockets."""

import asyncio
import logging

import pytest

from iop.edge.links import Links, RunSpec
from iop.link.backoff import Backoff
from iop.link.messages import Config, End, Ready, Run, TurnedAway
from iop.node.dialer import Dialer
from iop.transport.link import LinkConnection
from iop.transport.tasks import TaskSet
from tests.fakes.link_peers import FakeDirectory, FakeNode, Recorder, hello
from tests.fakes.until import until

SPEC = RunSpec(request_id="r1", adapter="e1", operation="chat.completions", stream=True, provider_id="p1", body=b"{}")


def owner_of(links: Links) -> tuple[int, str] | None:
    """Epoch and instance of the link that owns n1."""
    link = links.node("n1")
    return (link.epoch, link.hello.instance_id) if link else None


@pytest.fixture
async def edge():
    """An Edge's links on a free port: (links, events, address)."""
    events = Recorder()
    links = Links(directory=FakeDirectory(), events=events, dead_after=2.0)
    address = await links.listen("127.0.0.1", 0)
    yield links, events, address
    await links.close(going_away=False)


async def test_a_redial_of_the_same_instance_takes_over_and_the_late_close_of_the_old_touches_nothing(edge):
    """The old link's stream ends with an error at once; the new link works before and after the old socket closes."""
    links, events, address = edge
    old = await FakeNode.join(address, hello(instance_id="same"))
    await until(lambda: events.of("ready"))
    ends: list[End] = []
    stream = links.start("n1", SPEC, ends.append)
    await old.expect(Run)
    new = await FakeNode.join(address, hello(instance_id="same"))
    assert [(end.outcome, end.failure) for end in ends] == [("failed", "link_lost")]
    async with asyncio.timeout(1.0):
        assert await stream.head() is ends[0]
    assert [entry[:3] for entry in events.log[:4]] == [
        ("connected", "n1", 1),
        ("ready", "n1", 1),
        ("lost", "n1", 1),
        ("connected", "n1", 2),
    ]
    await until(lambda: len(events.of("ready")) == 2)
    await old.close()
    again = links.start("n1", SPEC, ends.append)
    await new.expect(Run)
    new.answer(again.run, b"hello")
    await again.head()
    assert await again.read() == b"hello"
    await until(lambda: len(ends) == 2)
    assert owner_of(links) == (2, "same")
    assert len(events.of("lost")) == 1
    await new.close()


async def test_another_instance_is_refused_while_the_owner_answers(edge, caplog):
    """A cloned host gets `duplicate_node` each time, is logged once, and the owner's stream goes on."""
    links, events, address = edge
    owner = await FakeNode.join(address, hello(instance_id="owner"))
    await until(lambda: events.of("ready"))
    ends: list[End] = []
    stream = links.start("n1", SPEC, ends.append)
    await owner.expect(Run)
    with caplog.at_level(logging.WARNING, logger="iop.edge.links"):
        for _ in range(3):
            clone = await FakeNode.connect(address)
            clone.send(hello(instance_id="clone"))
            refusal = await clone.expect(TurnedAway)
            assert refusal.code == "duplicate_node"
            assert "owner" in refusal.message
            await clone.gone()
            await clone.close()
    assert len([record for record in caplog.records if "duplicate_node" in record.getMessage()]) == 1
    (entry,) = links.turned_away()
    assert (entry.node_id, entry.code, entry.peer, entry.count) == ("n1", "duplicate_node", "127.0.0.1", 3)
    owner.answer(stream.run, b"still here")
    await stream.head()
    assert await stream.read() == b"still here"
    assert not events.of("lost")
    await owner.close()


async def test_a_dead_owner_loses_the_id_to_another_instance(edge):
    """An owner that does not answer the probe is lost, its run ends, and the newcomer serves."""
    links, events, address = edge
    dead = await FakeNode.join(address, hello(instance_id="dead"))
    await until(lambda: events.of("ready"))
    dead.answers = False
    ends: list[End] = []
    links.start("n1", SPEC, ends.append)
    new = await FakeNode.join(address, hello(instance_id="new"))
    await until(lambda: len(events.of("ready")) == 2)
    assert [end.failure for end in ends] == ["link_lost"]
    assert owner_of(links) == (2, "new")
    await dead.close()
    await new.close()


async def test_a_thief_without_the_token_evicts_nobody(edge):
    """A wrong token is turned away before ownership is even looked at, dead owner or not, same instance id or not."""
    links, events, address = edge
    owner = await FakeNode.join(address, hello(instance_id="owner"))
    await until(lambda: events.of("ready"))
    owner.answers = False
    for token in (None, "wrong", "sécret"):
        thief = await FakeNode.connect(address)
        thief.send(hello(instance_id="owner", token=token))
        assert (await thief.expect(TurnedAway)).code == "bad_token"
        await thief.close()
    assert not events.of("lost")
    assert owner_of(links) == (1, "owner")
    await owner.close()


class Host:
    """A real dialer on a host, whose process acknowledges its config."""

    def __init__(self, address: tuple[str, int], instance_id: str) -> None:
        self.taken_in = 0
        self.dialer = Dialer(
            address=address,
            hello=lambda: hello(instance_id=instance_id),
            handler=self,
            backoff=Backoff(first=0.01, cap=0.05),
        )

    def on_config(self, conn: LinkConnection, config: Config) -> None:
        self.taken_in += 1
        conn.send(Ready(generation=config.generation))

    def on_lost(self, reason: str) -> None:
        """The dialer redials."""


async def test_b42_cloned_hosts_do_not_flap(edge, caplog):
    """Field case B42: of two hosts with one id the first stays; the other tries slowly, and gets the id when it leaves.

    Each end tells it once.
    """
    links, events, address = edge
    tasks = TaskSet()
    first, clone = Host(address, "first"), Host(address, "clone")
    tasks.start(first.dialer.run_forever(), name="first")
    await until(lambda: events.of("ready"))
    with caplog.at_level(logging.WARNING):
        tasks.start(clone.dialer.run_forever(), name="clone")
        await until(lambda: links.turned_away() and links.turned_away()[0].count >= 5)
    assert owner_of(links) == (1, "first")
    assert (first.taken_in, clone.taken_in, events.of("lost")) == (1, 0, [])
    assert clone.dialer.state in {"turned_away:duplicate_node", "connecting"}
    told = [record.name for record in caplog.records if record.levelno >= logging.WARNING]
    assert sorted(told) == ["iop.edge.links", "iop.node.dialer"]
    await first.dialer.stop()
    await until(lambda: clone.taken_in == 1)
    assert owner_of(links) == (2, "clone")
    await clone.dialer.stop()
    await tasks.close()
