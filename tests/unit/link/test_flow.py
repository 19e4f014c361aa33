"""Credit: bounded, conserved, and never granted twice."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iop.link.errors import WireError
from iop.link.flow import GRANT_AT, INITIAL_CREDIT, Flow, Flows


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, INITIAL_CREDIT)), max_size=60))
def test_sender_and_receiver_agree_and_neither_ever_starves(steps):
    """Whatever is sent and drained: what is held never exceeds the window, and an empty reader means credit."""
    sender, receiver, held = Flow(), Flow(), 0
    for sending, count in steps:
        if sending:
            n = min(count, sender.available)
            if n:
                sender.spend(n)
                receiver.receive(n)
                held += n
        elif held:
            n = min(count, held)
            held -= n
            grant = receiver.drain(n)
            if grant:
                sender.grant(grant)
        assert held <= INITIAL_CREDIT
        assert held or sender.available > INITIAL_CREDIT - GRANT_AT


def test_a_sender_cannot_overdraw():
    """More than the credit is a fault of ours, not of the wire."""
    with pytest.raises(ValueError, match="credit"):
        Flow().spend(INITIAL_CREDIT + 1)


@pytest.mark.parametrize("count", [-1, 0, 11])
def test_wrong_grants_are_refused(count):
    """Credit for what was never sent would unbound the receiver's memory."""
    window = Flow()
    window.spend(10)
    with pytest.raises(WireError):
        window.grant(count)


def test_bytes_without_credit_are_refused():
    """The peer must not send more than it was granted."""
    window = Flow()
    window.receive(INITIAL_CREDIT)
    with pytest.raises(WireError, match="credit"):
        window.receive(1)


def test_draining_what_never_came_is_a_fault_of_ours():
    """The books stay right or the test suite says so."""
    with pytest.raises(ValueError, match="drained"):
        Flow().drain(1)


def test_a_run_is_open_once():
    """A number in use is refused; closing is safe to repeat."""
    flows = Flows()
    flows.open(1)
    with pytest.raises(WireError, match="open"):
        flows.open(1)
    assert list(flows) == [1]
    flows.close(1)
    flows.close(1)
    assert len(flows) == 0
    assert flows.get(1) is None
