"""iop_release.errors: what a person reads."""

from iop_release.errors import ReleaseError


def test_the_hint_stands_on_a_line_of_its_own() -> None:
    """The message is one text, and the next step is set apart from it."""
    assert str(ReleaseError("it is broken", "mend it")) == "it is broken\n  mend it"
    assert str(ReleaseError("it is broken")) == "it is broken"
