"""LinkRun: what the relay sees of one run, with a recorded connection."""

import asyncio
from dataclasses import dataclass, field

import pytest

from iop.edge.runs import HELD_UP_AT, LinkRun, RunSpec
from iop.link.errors import WireError
from iop.link.flow import GRANT_AT, INITIAL_CREDIT, ReceiveWindow
from iop.link.messages import Cancel, End, Head, Message, Run
from iop.transport.link import LinkLost
from iop.transport.tasks import TaskSet
from tests.fakes.until import until

SPEC = RunSpec(request_id="r1", adapter="e1", operation="responses", stream=True, body=b"body", headers=(("a", "b"),))


@dataclass
class Conn:
    """Takes the place of a connection; `room` bytes of body can go at once, the rest waits for `open`."""

    room: int = 1 << 30
    sent: list[Message] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    credit: list[int] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    over: bool = False

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def offer_body(self, run: int, data: bytes, *, end: bool = False) -> memoryview | None:
        view = memoryview(data)
        self.body += view[: self.room]
        return None if len(view) <= self.room else view[self.room :]

    async def send_body(self, run: int, data: bytes, *, end: bool = False) -> None:
        await self.open.wait()
        if self.over:
            raise LinkLost("over")
        self.body += data

    def drained(self, run: int, n: int) -> None:
        self.credit.append(n)


@pytest.fixture
async def tasks():
    """Background work, ended with the test."""
    tasks = TaskSet()
    yield tasks
    await tasks.close()


def begun(tasks: TaskSet, conn: Conn | None = None) -> tuple[LinkRun, Conn, list[End]]:
    """A run that was started as number 7 of epoch 3."""
    conn = conn or Conn()
    ends: list[End] = []
    run = LinkRun(conn, "n1", SPEC.message(7, 3), ends.append)
    run.begin(SPEC.body, tasks)
    return run, conn, ends


DONE = End(run=7, outcome="completed")


async def test_it_sends_the_work_and_its_body(tasks):
    """All of the spec but the body is in the message."""
    run, conn, _ = begun(tasks)
    assert conn.sent == [
        Run(
            run=7,
            epoch=3,
            request_id="r1",
            adapter="e1",
            operation="responses",
            stream=True,
            headers=(("a", "b"),),
        )
    ]
    assert conn.body == b"body"
    assert (run.run, run.node_id, run.epoch) == (7, "n1", 3)


async def test_bytes_that_came_before_the_end_are_still_read(tasks):
    """The owner hears of the end at once; the reader gets head and body first, then None."""
    run, conn, ends = begun(tasks)
    run.took_head(Head(run=7, status=200))
    run.took_body(b"one")
    run.took_body(b"two")
    run.ended(DONE)
    assert ends == [DONE]
    assert await run.head() == Head(run=7, status=200)
    assert await run.read() == b"onetwo"
    assert conn.credit == [6]
    assert await run.read() is None
    assert run.end == DONE


async def test_waiting_readers_are_woken(tasks):
    """Head, body and end each end a wait."""
    run, _, _ = begun(tasks)
    head = tasks.start(run.head(), name="head")
    await asyncio.sleep(0)
    run.took_head(Head(run=7, status=500))
    assert (await head).status == 500
    assert run.head_seen
    read = tasks.start(run.read(), name="read")
    await asyncio.sleep(0)
    run.took_body(b"x")
    assert await read == b"x"
    last = tasks.start(run.read(), name="last")
    await asyncio.sleep(0)
    run.ended(DONE)
    assert await last is None


async def test_an_end_without_a_head_is_what_head_returns(tasks):
    """No status came: the caller sees the end."""
    run, _, _ = begun(tasks)
    end = End(run=7, outcome="failed", failure="unreachable")
    run.ended(end)
    assert await run.head() is end
    assert not run.head_seen


async def test_the_owner_hears_of_one_end_only(tasks):
    """An end frame and then a lost link are one end, and a second head is ignored."""
    run, _, ends = begun(tasks)
    run.took_head(Head(run=7, status=200))
    run.took_head(Head(run=7, status=500))
    run.ended(DONE)
    run.ended(End(run=7, outcome="failed", failure="link_lost"))
    assert ends == [DONE]
    assert run.end == DONE
    assert (await run.head()).status == 200


async def test_cancel_discards_and_credits_what_comes(tasks):
    """The node never stalls on a run that nobody reads any more."""
    run, conn, ends = begun(tasks)
    run.took_body(b"before")
    run.cancel("client")
    run.cancel("client")
    run.took_body(b"after!!")
    assert conn.sent[1:] == [Cancel(run=7, why="client")]
    assert conn.credit == [6, 7]
    run.ended(DONE)
    assert await run.read() is None
    assert ends == [DONE]


async def test_limit_after_client_is_passed_on_and_nothing_after_the_end(tasks):
    """`limit` stops what `client` may let finish; the reverse and repeats do nothing."""
    run, conn, _ = begun(tasks)
    run.cancel("client")
    run.cancel("limit")
    run.cancel("client")
    run.cancel("limit")
    assert [message.why for message in conn.sent[1:]] == ["client", "limit"]
    other, conn, _ = begun(tasks)
    other.ended(DONE)
    other.cancel("limit")
    assert len(conn.sent) == 1


async def test_the_rest_of_a_body_goes_out_in_the_background(tasks):
    """Starting never waits; cancel, end or a lost link stop the sending without a trace."""
    run, conn, _ = begun(tasks, Conn(room=2))
    assert conn.body == b"bo"
    conn.open.set()
    await until(lambda: not len(tasks))
    assert conn.body == b"body"
    for stop in (lambda run: run.cancel("client"), lambda run: run.ended(DONE)):
        run, conn, _ = begun(tasks, Conn(room=2))
        await asyncio.sleep(0)
        stop(run)
        await until(lambda: not len(tasks))
        assert conn.body == b"bo"
    run, conn, ends = begun(tasks, Conn(room=2, over=True))
    conn.open.set()
    await until(lambda: not len(tasks))
    assert ends == []


class Heard:
    """A listener that notes what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def heard(self) -> None:
        self.told.append("heard")

    def held_up(self) -> None:
        self.told.append("held up")

    def resumed(self) -> None:
        self.told.append("resumed")


async def test_a_listener_hears_of_head_and_bytes_read_or_not(tasks):
    """Each piece is a sign of life, also one that nobody reads any more; an end is told elsewhere."""
    run, _, _ = begun(tasks)
    listener = Heard()
    run.listen(listener)
    run.took_head(Head(run=7, status=200))
    run.took_body(b"x")
    await run.read()
    run.cancel("client")
    run.took_body(b"x")
    run.ended(DONE)
    assert listener.told == ["heard", "heard", "heard"]


async def test_a_listener_is_told_when_nobody_reads_and_when_somebody_does_again(tasks):
    """Once per stay: from the moment at which the node may have no credit left, until the next read."""
    run, _, _ = begun(tasks)
    listener = Heard()
    run.listen(listener)
    run.took_body(b"x" * HELD_UP_AT)
    assert listener.told == ["heard"]
    run.took_body(b"x")
    run.took_body(b"x")
    assert listener.told[1:] == ["heard", "held up", "heard"]
    await run.read()
    run.took_body(b"x")
    await run.read()
    assert listener.told[4:] == ["resumed", "heard"]


def test_a_node_without_credit_is_always_noticed():
    """However little of what was read has come back as credit, an empty window means more unread than the mark."""
    window = ReceiveWindow()
    window.receive(GRANT_AT - 1)
    assert window.drain(GRANT_AT - 1) == 0
    window.receive(INITIAL_CREDIT - GRANT_AT + 1)  # all that is allowed
    with pytest.raises(WireError):
        window.receive(1)
    assert INITIAL_CREDIT - GRANT_AT + 1 > HELD_UP_AT
