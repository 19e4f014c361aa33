"""Log lines that strangers cause."""

from iop.transport.seldom import MAX_EACH, MAX_PEERS, TELL_EVERY, Seldom


def test_once_in_a_while() -> None:
    """The same thing of the same peer is told again after the time, not before; another peer's counts for itself."""
    now = [0.0]
    seldom = Seldom(lambda: now[0])
    assert seldom.may_tell("a", "x")
    assert not seldom.may_tell("a", "x")
    assert seldom.may_tell("a", "y")
    assert seldom.may_tell("b", "x")
    now[0] = TELL_EVERY
    assert seldom.may_tell("a", "x")


def test_a_peer_that_always_does_something_else() -> None:
    """Made-up ids or lengths do not fill the log."""
    seldom = Seldom(lambda: 0.0)
    assert sum(seldom.may_tell("a", str(number)) for number in range(1000)) == MAX_EACH


def test_remembered_peers_are_bounded() -> None:
    """The peer that was told of first is forgotten first."""
    seldom = Seldom(lambda: 0.0)
    for number in range(MAX_PEERS + 1):
        assert seldom.may_tell(str(number), "x")
    assert seldom.may_tell("0", "x")
    assert not seldom.may_tell(str(MAX_PEERS), "x")
