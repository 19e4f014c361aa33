"""What the contract itself promises."""

from iop.adapters.contract import RETURNABLE
from iop.link import messages


def test_concurrency_is_documented_as_legacy():
    """S01: node-wide concurrency is legacy/compat metadata; provider capacity is the admission source."""
    text = messages.NodeRuntimeConfig.__doc__ or ""
    assert "legacy/compat metadata" in text
    assert "admission source is `providers[].capacity`" in text


def test_the_failures_that_go_back_to_the_line_are_failures_of_the_wire():
    """The contract of adapters and the wire use the same words."""
    assert set(messages.FAILURES) >= RETURNABLE
    assert messages.LINK_LOST not in messages.FAILURES
