"""LinkRun: what the relay sees of one run, with a recorded connection."""

import asyncio
from dataclasses import dataclass, field

import pytest

from iop.edge.runs import HELD_UP_AT, LinkRun, RunSpec
from iop.link.errors import WireError
from iop.link.flow import GRANT_AT, INITIAL_CREDIT, Flow
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
    message = SPEC.message(7, 3)
    run = LinkRun(conn, "n1", message, ends.append)
    run.begin(message, SPEC.body, tasks)
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
    window = Flow()
    window.receive(GRANT_AT - 1)
    assert window.drain(GRANT_AT - 1) == 0
    window.receive(INITIAL_CREDIT - GRANT_AT + 1)  # all that is allowed
    with pytest.raises(WireError):
        window.receive(1)
    assert INITIAL_CREDIT - GRANT_AT + 1 > HELD_UP_AT


class Into:
    """Takes what is poured while `ready`; notes how the pieces came."""

    def __init__(self, *, ready: bool = True) -> None:
        self.ready = ready
        self.pieces: list[bytes] = []

    def __call__(self, data: bytes) -> bool:
        if self.ready:
            self.pieces.append(data)
        return self.ready


async def test_take_gives_what_is_there_without_waiting(tasks):
    """A whole answer that came at once needs no further wait; each byte is credited once."""
    run, conn, _ = begun(tasks)
    assert run.take() == b""
    run.took_head(Head(run=7, status=200))
    run.took_body(b"one")
    run.took_body(b"two")
    run.took_body(b"three")
    run.ended(DONE)
    assert run.end is not None
    assert (run.take(), run.take()) == (b"onetwothree", b"")
    assert conn.credit == [11]


async def test_what_is_poured_comes_in_order_and_in_the_same_turn(tasks):
    """What came before goes first, then each piece as it comes; `done` tells the end when all of it was taken."""
    run, conn, _ = begun(tasks)
    into = Into()
    run.took_head(Head(run=7, status=200))
    run.took_body(b"1")
    run.took_body(b"2")
    run.pour(into)
    assert into.pieces == [b"12"]
    run.took_body(b"3")
    run.took_body(b"4")
    assert into.pieces == [b"12", b"3", b"4"]
    assert conn.credit == [2, 1, 1]
    done = tasks.start(run.done(), name="done")
    await asyncio.sleep(0)
    assert not done.done()
    run.took_body(b"5")
    run.ended(DONE)
    assert await done == DONE
    assert into.pieces[-1] == b"5"


async def test_a_reader_that_is_behind_gets_the_rest_when_it_pours_again(tasks):
    """Nothing is credited or lost meanwhile, the listener hears of the stay, and the end waits for the bytes."""
    run, conn, _ = begun(tasks)
    listener, into = Heard(), Into()
    run.listen(listener)
    run.pour(into)
    run.took_body(b"a")
    into.ready = False
    run.took_body(b"b" * HELD_UP_AT)
    run.took_body(b"c")
    into.ready = True
    run.took_body(b"d")  # not before what is kept
    done = tasks.start(run.done(), name="done")
    run.ended(DONE)
    await asyncio.sleep(0)
    assert not done.done()
    assert (into.pieces, conn.credit) == ([b"a"], [1])
    assert listener.told[-3:] == ["heard", "held up", "heard"]
    into.ready = False
    run.pour(into)
    assert into.pieces == [b"a"]
    into.ready = True
    run.pour(into)
    assert into.pieces[1:] == [b"b" * HELD_UP_AT + b"cd"]
    assert conn.credit[1:] == [HELD_UP_AT + 2]
    assert listener.told[-1] == "heard"  # of what is over nothing more is to be heard
    assert await done == DONE


@pytest.mark.parametrize("behind", [False, True])
async def test_a_cancelled_run_pours_no_more(tasks, behind):
    """What is kept and what still comes is thrown away and credited; `done` tells the end."""
    run, conn, _ = begun(tasks)
    into = Into(ready=not behind)
    run.pour(into)
    run.took_body(b"before")
    run.cancel("client")
    into.ready = True
    run.took_body(b"after!!")
    run.pour(into)
    assert into.pieces == ([] if behind else [b"before"])
    assert sum(conn.credit) == 13
    run.ended(DONE)
    assert await run.done() == DONE


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("taken", [False, True])
async def test_who_cancels_while_it_takes_a_piece_gets_no_other(tasks, early, taken):
    """Whatever it returns, the piece is credited once and the next one is thrown away."""
    run, conn, _ = begun(tasks)
    got: list[bytes] = []

    def into(data: bytes) -> bool:
        got.append(data)
        run.cancel("client")
        return taken

    if early:
        run.took_body(b"first")
        run.pour(into)
    else:
        run.pour(into)
        run.took_body(b"first")
    run.took_body(b"second")
    assert got == [b"first"]
    assert sum(conn.credit) == 11


async def test_a_fault_while_pouring_is_raised_by_done(tasks):
    """The reader that waits hears of it; what comes after is kept until the cancel, and each byte is credited once."""
    run, conn, _ = begun(tasks)

    def into(data: bytes) -> bool:
        raise ValueError(data)

    run.pour(into)
    done = tasks.start(run.done(), name="done")
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="x"):
        run.took_body(b"x")
    run.took_body(b"y")
    with pytest.raises(ValueError, match="x"):
        await done
    assert sum(conn.credit) == 1
    run.cancel("client")
    assert sum(conn.credit) == 2


async def test_a_fault_with_what_is_there_already_is_raised_at_once(tasks):
    """`pour` itself raises it, and so does `done` for who asks all the same."""
    run, _, _ = begun(tasks)
    run.took_body(b"x")
    with pytest.raises(ZeroDivisionError):
        run.pour(lambda data: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await run.done()
