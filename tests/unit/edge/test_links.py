"""The Edge's links with fake nodes over real sockets; B42 is in tests/field."""

import asyncio

import pytest

from iop.edge import links as module
from iop.edge.links import Links, NodeOffline, RunSpec
from iop.link.flow import INITIAL_CREDIT
from iop.link.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    Cancel,
    Config,
    End,
    GoingAway,
    ProviderHealth,
    Ready,
    Run,
    RunningWork,
    TurnedAway,
)
from iop.transport.tasks import TaskSet
from tests.fakes.link_peers import FakeDirectory, FakeNode, Recorder, hello
from tests.fakes.until import until

SPEC = RunSpec(request_id="r1", adapter="e1", operation="chat.completions", stream=True, provider_id="p1", body=b"{}")


class Edge:
    """Links on a free port, and what they said."""

    def __init__(self, dead_after: float) -> None:
        self.directory = FakeDirectory()
        self.events = Recorder()
        self.links = Links(directory=self.directory, events=self.events, dead_after=dead_after, wall=lambda: 1000.0)
        self.address = ("", 0)
        self.nodes: list[FakeNode] = []

    async def join(self, **fields) -> FakeNode:
        """A node that is taken in and ready."""
        ready = len(self.events.of("ready"))
        node = await FakeNode.join(self.address, hello(**fields))
        self.nodes.append(node)
        await until(lambda: len(self.events.of("ready")) > ready)
        return node

    async def connect(self) -> FakeNode:
        """A stranger."""
        node = await FakeNode.connect(self.address)
        self.nodes.append(node)
        return node


@pytest.fixture
async def edge():
    """An Edge with a dead_after of 30 s."""
    edge = Edge(30.0)
    edge.address = await edge.links.listen("127.0.0.1", 0)
    yield edge
    for node in edge.nodes:
        await node.close()
    await edge.links.close(going_away=False)


async def test_a_node_that_is_not_ready_gets_no_work(edge):
    """Offline, connected without acknowledgement, then ready."""
    with pytest.raises(NodeOffline):
        edge.links.start("n1", SPEC, lambda end: None)
    node = await edge.connect()
    node.send(hello())
    config = await node.expect(Config)
    with pytest.raises(NodeOffline):
        edge.links.start("n1", SPEC, lambda end: None)
    node.send(Ready(generation=config.generation))
    await until(lambda: edge.events.of("ready"))
    edge.links.start("n1", SPEC, lambda end: None)
    sent = await node.expect(Run)
    assert (sent.run, sent.epoch, sent.provider_id) == (1, config.epoch, "p1")
    link = edge.links.node("n1")
    assert link is not None
    assert (link.epoch, link.since, link.hello.instance_id, link.ready) == (1, 1000.0, "i1", Ready(generation=1))


async def test_adopted_work_is_announced_and_its_end_is_told(edge):
    """What a hello reports keeps its numbers; new runs start above them."""
    work = (RunningWork(run=41, request_id="old", adapter="e1", provider_id="p1"),)
    node = await edge.join(running=work)
    assert edge.events.log[0] == ("connected", "n1", 1, (41,))
    assert edge.links.start("n1", SPEC, lambda end: None).run == 42
    node.send(End(run=41, outcome="completed"))
    await until(lambda: edge.events.of("adopted_end") == [("adopted_end", "n1", 41, "completed")])


async def test_a_client_that_does_not_read_stalls_its_own_run_only(edge):
    """The stalled run holds one window at the Edge; another run of the node and its pings go on."""
    node = await edge.join()
    stalled = edge.links.start("n1", SPEC, lambda end: None)
    flowing = edge.links.start("n1", SPEC, lambda end: None)
    await node.expect(Run, 2)
    for _ in range(INITIAL_CREDIT // 65536):
        node.send_body(stalled.run, bytes(65536))
    total = 0
    for number in range(32):
        node.send_body(flowing.run, bytes(65536), end=number == 31)
        total += len(await flowing.read() or b"")
    while total < 32 * 65536:
        total += len(await flowing.read() or b"")
    link = edge.links.node("n1")
    assert link is not None
    assert await link.conn.probe(20.0)
    assert len(stalled.take()) == INITIAL_CREDIT
    assert not edge.events.of("lost")


async def test_a_fault_where_an_answer_is_poured_to_ends_that_run_only(edge):
    """The loop reports it and its reader gets it; another run of the node goes on with all of its bytes."""
    reported: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    node = await edge.join()
    bad = edge.links.start("n1", SPEC, lambda end: None)
    good = edge.links.start("n1", SPEC, lambda end: None)
    got = bytearray()

    def breaks(data: bytes) -> bool:
        raise ValueError(data)

    def takes(data: bytes) -> bool:
        got.extend(data)
        return True

    bad.pour(breaks)
    good.pour(takes)
    await node.expect(Run, 2)
    for n in range(50):
        node.send_body(bad.run, b"x")
        node.send_body(good.run, bytes([n]) * 10_000)
    node.send(End(run=good.run, outcome="completed"))
    assert (await good.done()).outcome == "completed"
    with pytest.raises(ValueError, match="x"):
        await bad.done()
    assert bytes(got) == b"".join(bytes([n]) * 10_000 for n in range(50))
    assert [type(each["exception"]) for each in reported] == [ValueError]
    assert not edge.events.of("lost")


async def test_a_cancelled_run_never_stalls_its_node(edge):
    """After cancel the node may send as much as it likes until it says end."""
    node = await edge.join()
    ends: list[End] = []
    run = edge.links.start("n1", SPEC, ends.append)
    await node.expect(Run)
    run.cancel("client")
    assert (await node.expect(Cancel)).why == "client"
    for _ in range(4 * INITIAL_CREDIT // 65536):
        node.send_body(run.run, bytes(65536))
    node.send(End(run=run.run, outcome="cancelled"))
    await until(lambda: ends)
    assert ends == [End(run=run.run, outcome="cancelled")]
    assert await run.read() is None
    assert not edge.events.of("lost")


async def test_a_large_request_body_reaches_the_node(edge):
    """The rest goes out in the background as the node grants credit."""
    node = await edge.join()
    body = bytes(range(256)) * 8192
    spec = RunSpec(request_id="r", adapter="e1", operation="responses", stream=False, body=body)
    run = edge.links.start("n1", spec, lambda end: None)
    await until(lambda: run.run in node.whole)
    assert bytes(node.bodies[run.run]) == body


async def test_a_refresh_reaches_connected_nodes_and_is_acknowledged(edge):
    """push_config sends the new generation; acknowledged waits for it, and gives up in time."""
    node = await edge.join()
    assert await edge.links.acknowledged("n1", 1, 20.0)
    edge.directory.generation = 2
    edge.links.push_config(["n1", "n2"])
    assert not await edge.links.acknowledged("n1", 2, 0.01)
    tasks = TaskSet()
    waiting = tasks.start(edge.links.acknowledged("n1", 2, 20.0), name="waiting")
    config = await node.expect(Config, 2)
    assert (config.generation, config.epoch) == (2, 1)
    node.send(Ready(generation=2))
    assert await waiting
    assert not await edge.links.acknowledged("n2", 2, 0.01)


async def test_a_node_that_left_the_config_is_turned_away(edge):
    """A refresh that removes a node ends its link with a code."""
    node = await edge.join()
    del edge.directory.tokens["n1"]
    edge.links.push_config(["n1"])
    assert (await node.expect(TurnedAway)).code == "unknown_node"
    await until(lambda: edge.events.of("lost"))
    assert edge.links.node("n1") is None


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"token": "wrong"}, "bad_token"),
        ({"token": None}, "bad_token"),
        ({"node_id": "n9"}, "unknown_node"),
        ({"protocol": OLDEST_PROTOCOL - 1}, "protocol_mismatch"),
        ({"protocol": PROTOCOL + 1}, "protocol_mismatch"),
        ({"protocol": PROTOCOL + 2, "oldest_protocol": PROTOCOL + 1}, "protocol_mismatch"),
    ],
)
async def test_refusals_have_a_code_and_are_listed(edge, fields, code):
    """The peer is told, the list tells who; nothing is announced."""
    node = await edge.connect()
    node.send(hello(**fields))
    assert (await node.expect(TurnedAway)).code == code
    await node.gone()
    (entry,) = edge.links.turned_away()
    assert (entry.node_id, entry.code, entry.peer) == (fields.get("node_id", "n1"), code, "127.0.0.1")
    assert (entry.last_at, entry.count) == (1000.0, 1)
    assert edge.events.log == []


async def test_a_node_without_a_token_may_come_from_loopback(edge):
    """The directory is told whether the peer is on loopback; health is passed on."""
    node = await edge.join(node_id="n2", token=None)
    node.send(ProviderHealth(provider_id="p2", up=True))
    await until(lambda: edge.events.of("health") == [("health", "n2", "p2", True)])


async def test_a_newcomer_that_leaves_while_the_owner_is_probed_changes_nothing(edge):
    """The claim dies with its connection."""
    owner = await edge.join(instance_id="owner")
    owner.answers = False
    newcomer = await edge.connect()
    newcomer.send(hello(instance_id="other"))
    await until(lambda: edge.links._claims)
    await newcomer.close()
    await until(lambda: not edge.links._claims)
    owner.answers = True
    link = edge.links.node("n1")
    assert link is not None
    assert link.hello.instance_id == "owner"
    assert not edge.events.of("lost")


async def test_of_two_claims_on_a_dead_owner_one_wins(monkeypatch):
    """Both probe the same dead link; the second then meets a living owner and is refused."""
    edge = Edge(1.0)
    edge.address = await edge.links.listen("127.0.0.1", 0)
    dead = await edge.join(instance_id="dead")
    dead.answers = False
    first, second = await edge.connect(), await edge.connect()
    first.send(hello(instance_id="first"))
    second.send(hello(instance_id="second"))
    await until(lambda: sum(len(node.all(Config)) for node in (first, second)) == 1)
    await until(lambda: sum(len(node.all(TurnedAway)) for node in (first, second)) == 1)
    assert len(edge.events.of("connected")) == 2
    for node in edge.nodes:
        await node.close()
    await edge.links.close(going_away=False)


async def test_leaving_tells_the_nodes_and_ends_every_run(edge):
    """going_away is told once, also to who comes back, and lets runs go on and begin; close ends them as lost."""
    node = await edge.join()
    ends: list[End] = []
    run = edge.links.start("n1", SPEC, ends.append)
    edge.links.going_away()
    await node.expect(GoingAway)
    edge.links.start("n1", SPEC, ends.append)  # for a waiter
    await node.expect(Run, 2)
    other = await edge.join(node_id="n2", token=None)
    await other.expect(GoingAway)
    node.send_body(run.run, b"still going")
    assert await run.read() == b"still going"
    await edge.links.close(going_away=True)
    assert [end.failure for end in ends] == ["link_lost"] * 2
    assert ("lost", "n1", 1, "the Edge is stopping") in edge.events.log
    with pytest.raises(ConnectionError):
        await FakeNode.connect(edge.address)
    await node.gone()
    assert len(node.all(GoingAway)) == 1
    with pytest.raises(NodeOffline):
        edge.links.start("n1", SPEC, ends.append)


@pytest.mark.parametrize(
    "fields",
    [
        *({"protocol": number} for number in range(OLDEST_PROTOCOL, PROTOCOL + 1)),
        {"protocol": PROTOCOL + 1, "oldest_protocol": PROTOCOL},
    ],
)
async def test_a_node_of_another_release_is_taken_in_when_both_know_a_protocol(edge, fields):
    """Each number from OLDEST_PROTOCOL to PROTOCOL is welcome, and a newer node that still speaks ours."""
    await edge.join(**fields)
    assert edge.links.turned_away() == []


async def test_a_mismatch_tells_what_each_end_speaks(edge):
    """Both ranges stand in the refusal, for the logs of both ends."""
    node = await edge.connect()
    node.send(hello(protocol=9, oldest_protocol=8))
    told = (await node.expect(TurnedAway)).message
    assert told == f"this Edge speaks protocol {PROTOCOL}, the node 8 to 9"


async def test_too_many_strangers_are_not_kept(edge, monkeypatch):
    """Connections that say nothing are bounded, the oldest go first; a node comes in all the same, and afterwards."""
    monkeypatch.setattr(module, "MAX_STRANGERS", 3)
    for number in range(1, 6):
        await edge.connect()
        await until(lambda number=number: len(edge.links._open) == min(number, 3))
    await until(lambda: [node.closed for node in edge.nodes] == [True, True, False, False, False])
    await edge.join(instance_id="i0")
    for node in edge.nodes:
        await node.close()
    edge.nodes.clear()
    await until(lambda: not edge.links._strangers)
    await edge.join()


async def test_a_loss_ends_each_run_once_although_an_owner_fails(edge):
    """B47: the fault of one owner is reported by the loop, and the others still hear of their end."""
    reported: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    node = await edge.join()
    ends: list[int] = []

    def owner(end: End) -> None:
        ends.append(end.run)
        if end.run == 2:
            raise ValueError("a fault in one owner")

    for _ in range(3):
        edge.links.start("n1", SPEC, owner)
    await node.close()
    await until(lambda: reported)
    assert ends == [1, 2, 3]
    assert isinstance(reported[0]["exception"], ValueError)
    await edge.join(instance_id="i2")
