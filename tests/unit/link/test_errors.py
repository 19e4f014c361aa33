"""The link's error."""

from iop.link.errors import WireError


def test_its_text_is_what_was_wrong():
    """The text goes into a log line as it is."""
    assert str(WireError("unknown frame kind 9")) == "unknown frame kind 9"
