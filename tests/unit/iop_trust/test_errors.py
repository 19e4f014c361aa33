"""iop_trust.errors: one error, for a person."""

from iop_trust.errors import TrustError


def test_the_hint_stands_on_a_line_of_its_own() -> None:
    """With a hint the text has two lines, without one it is the message."""
    assert str(TrustError("no")) == "no"
    assert str(TrustError("no", "do this")) == "no\n  next: do this"
