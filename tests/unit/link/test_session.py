"""Two sessions, bytes handed over by hand, time by argument."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iop.link.codec import Codec
from iop.link.errors import WireError
from iop.link.flow import INITIAL_CREDIT
from iop.link.frames import MAX_HELLO, MAX_PIECE, BodyFrame, body_frame, control_frame
from iop.link.messages import (
    Bye,
    Cancel,
    Config,
    Credit,
    End,
    Head,
    Hello,
    NodeRuntimeConfig,
    Ping,
    Pong,
    Run,
    TurnedAway,
)
from iop.link.session import Session, SessionState

HELLO = Hello(protocol=1, node_id="n", instance_id="i")
CONFIG = Config(epoch=1, generation=1, dead_after=10.0, runtime=NodeRuntimeConfig(node_id="n"))
RUN = Run(run=1, epoch=1, request_id="r", adapter="a", operation="responses", stream=False)


def session(role: str) -> Session:
    """A fresh session at time 0."""
    return Session(role, dead_after=10.0, open_within=5.0, now=0.0)


def events(session: Session) -> list:
    """Everything that was received."""
    found = []
    while (event := session.next_event()) is not None:
        found.append(event)
    return found


def give(to: Session, *frames: bytes) -> list:
    """Hand bytes over; returns what they mean."""
    to.feed(b"".join(frames))
    return events(to)


def pair() -> tuple[Session, Session]:
    """An Edge and a node with run 1 open."""
    edge, node = session("edge"), session("node")
    assert give(edge, node.send(HELLO)) == [HELLO]
    assert give(node, edge.send(CONFIG)) == [CONFIG]
    assert give(node, edge.send(RUN)) == [RUN]
    return edge, node


def raw(message) -> bytes:
    """A frame that no session stands behind."""
    return control_frame(Codec().encode(message))


def test_a_run_with_bodies_both_ways():
    """Run, body, head, body, end: in order, and both ends forget the run."""
    edge, node = pair()
    frame, count = edge.send_piece(1, memoryview(b"question"), end=True)
    assert count == 8
    assert give(node, frame) == [BodyFrame(1, b"question", True)]
    frame, _ = node.send_piece(1, memoryview(b"answer"), end=True)
    head, end = Head(run=1, status=200), End(run=1, outcome="completed")
    assert give(edge, node.send(head), frame, node.send(end)) == [head, BodyFrame(1, b"answer", True), end]
    assert len(edge.flows) == len(node.flows) == 0
    with pytest.raises(KeyError):
        edge.send_piece(1, memoryview(b"x"), end=True)


@pytest.mark.parametrize("message", [Bye(), Ping(n=1), End(run=1, outcome="completed"), Credit(run=1, bytes=1)])
def test_nothing_counts_before_the_hello(message):
    """A stranger's first frame is a hello or the end of the link."""
    with pytest.raises(WireError, match="first message"):
        give(session("edge"), raw(message))


def test_a_stranger_cannot_send_bodies_or_large_frames():
    """Before the hello the limits are those for strangers."""
    with pytest.raises(WireError, match="before the first"):
        give(session("edge"), body_frame(1, b"x", end=True))
    with pytest.raises(WireError, match="over the limit"):
        give(session("edge"), control_frame(b"x" * (MAX_HELLO + 1)))


def test_the_hello_must_come_in_time():
    """In own time: ticks that come late do not shorten it."""
    edge = session("edge")
    for now in range(1, 5):
        assert edge.tick(float(now)) == b""
    with pytest.raises(WireError, match="no hello within 5 s"):
        edge.tick(5.0)


def test_a_node_hears_config_or_a_refusal_first():
    """Both open the session; anything else is wrong."""
    refusal = TurnedAway(code="bad_token", message="no")
    node = session("node")
    assert give(node, raw(refusal)) == [refusal]
    assert node.state is SessionState.OPEN
    with pytest.raises(WireError, match="first message"):
        give(session("node"), raw(RUN))


@pytest.mark.parametrize("message", [RUN, CONFIG, HELLO, Cancel(run=1, why="client")])
def test_messages_come_from_the_right_side_only(message):
    """A node cannot start runs on the Edge, nor say hello twice."""
    edge, _ = pair()
    with pytest.raises(WireError):
        give(edge, raw(message))


@pytest.mark.parametrize("number", [0, -1, 2**32, 1])
def test_wrong_run_numbers_are_refused(number):
    """A number must fit into a body frame and be free."""
    _, node = pair()
    with pytest.raises(WireError):
        give(node, raw(Run(run=number, epoch=1, request_id="r", adapter="a", operation="responses", stream=False)))


def test_pings_are_answered_and_pongs_noticed():
    """The answer is owed by the session, not by its user."""
    edge, node = pair()
    number, frame = edge.ping()
    assert give(node, frame) == []
    assert give(edge, node.replies()) == [Pong(n=number)]
    assert edge.ponged == number
    assert node.replies() == b""


@pytest.mark.parametrize("n", [0, 2])
def test_a_pong_must_answer_something(n):
    """Made-up pongs would hide a peer that does not hear us."""
    edge, _ = pair()
    edge.ping()
    with pytest.raises(WireError, match="pong"):
        give(edge, raw(Pong(n=n)))


def test_a_body_is_cut_by_piece_and_by_credit():
    """Pieces are bounded, the window is spent, and no END goes out before its bytes did."""
    edge, node = pair()
    data = memoryview(bytes(INITIAL_CREDIT + 10))
    frames = []
    while (piece := edge.send_piece(1, data, end=True)) is not None:
        frames.append(piece[0])
        assert piece[1] <= MAX_PIECE
        data = data[piece[1] :]
    assert len(data) == 10
    pieces = give(node, *frames)
    assert not any(piece.end for piece in pieces)
    grant = node.drained(1, INITIAL_CREDIT)
    assert give(edge, grant) == [Credit(run=1, bytes=INITIAL_CREDIT)]
    frame, count = edge.send_piece(1, data, end=True)
    assert count == 10
    assert give(node, frame) == [BodyFrame(1, bytes(10), True)]


def test_small_drains_are_granted_together():
    """Not one credit message for each token."""
    edge, node = pair()
    frame, _ = node.send_piece(1, memoryview(bytes(100)), end=False)
    give(edge, frame)
    assert edge.drained(1, 100) == b""


def test_bytes_without_credit_break_the_link():
    """A sender that ignores its credit is cut before it fills our memory."""
    edge, _ = pair()
    frames = [body_frame(1, bytes(MAX_PIECE), end=False)] * (INITIAL_CREDIT // MAX_PIECE)
    give(edge, *frames)
    with pytest.raises(WireError, match="credit"):
        give(edge, body_frame(1, b"x", end=False))


def test_late_pieces_and_credit_of_a_finished_run_are_dropped():
    """What was under way when a run ended harms nobody."""
    edge, node = pair()
    give(edge, node.send(End(run=1, outcome="failed", failure="busy")))
    frame = body_frame(1, b"late", end=True)
    assert give(node, frame, raw(Credit(run=1, bytes=5))) == []
    assert node.drained(1, 4) == b""


def test_ticks_ping_and_end_in_an_error():
    """The session's own pings go out; a silent peer is a WireError in time."""
    edge, _ = pair()
    sent = [edge.tick(float(now)) for now in range(1, 9)]
    assert sum(1 for data in sent if data) == 2
    with pytest.raises(WireError, match="silent"):
        edge.tick(9.0)


@pytest.mark.parametrize("dead_after", [0.0, -1.0])
def test_a_config_cannot_stop_the_clock(dead_after):
    """A dead_after that makes no sense is refused."""
    node = session("node")
    with pytest.raises(WireError, match="dead_after"):
        give(node, raw(Config(epoch=1, generation=1, dead_after=dead_after, runtime=NodeRuntimeConfig(node_id="n"))))


def test_the_config_sets_the_pace():
    """The node takes its dead_after from the Edge."""
    node = session("node")
    give(node, raw(Config(epoch=1, generation=1, dead_after=60.0, runtime=NodeRuntimeConfig(node_id="n"))))
    assert node.tick_interval == 6.0


GARBAGE = st.one_of(
    st.binary(max_size=40),
    st.builds(control_frame, st.binary(max_size=40)),
    st.builds(lambda run, data: body_frame(run, data, end=True), st.integers(0, 3), st.binary(max_size=40)),
    st.sampled_from([HELLO, RUN, Bye(), Ping(n=1), Pong(n=1), Credit(run=1, bytes=9), Head(run=1, status=1)]).map(raw),
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["edge", "node"]), st.booleans(), st.lists(GARBAGE, max_size=6))
def test_no_input_makes_anything_but_a_wire_error(role, opened, chunks):
    """Whatever a peer sends, the session either goes on or says what was wrong."""
    target = dict(zip(("edge", "node"), pair(), strict=True))[role] if opened else session(role)
    with contextlib.suppress(WireError):
        for chunk in chunks:
            give(target, chunk)


@pytest.mark.parametrize("status", [-1, 0, 100, 101, 199, 1000])
def test_a_head_has_the_status_of_a_final_answer(status):
    """Any other would make the client's connection something else; the node that sends it is not heard further."""
    edge, _ = pair()
    with pytest.raises(WireError, match="no status"):
        give(edge, raw(Head(run=1, status=status)))


def test_a_nodes_words_are_cut_before_anybody_sees_them():
    """The Edge's end keeps nothing of a length that a node chose."""
    edge, _ = pair()
    (end,) = give(edge, raw(End(run=1, outcome="failed", failure="made up", detail="x" * 500_000)))
    assert (end.failure, len(end.detail)) == ("broken", 2000)
