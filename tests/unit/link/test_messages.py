"""What the contract itself promises."""

import pytest

from iop.adapters.contract import RETURNABLE
from iop.link import messages
from tests.fakes.link_peers import hello


def test_concurrency_is_documented_as_legacy():
    """S01: node-wide concurrency is legacy/compat metadata; provider capacity is the admission source."""
    text = messages.NodeRuntimeConfig.__doc__ or ""
    assert "legacy/compat metadata" in text
    assert "admission source is `providers[].capacity`" in text


def test_the_failures_that_go_back_to_the_line_are_failures_of_the_wire():
    """The contract of adapters and the wire use the same words."""
    assert set(messages.FAILURES) >= RETURNABLE
    assert messages.LINK_LOST not in messages.FAILURES


@pytest.mark.parametrize(
    ("theirs", "ours", "common"),
    [
        ((None, 1), (1, 1), 1),
        ((None, 2), (1, 2), 2),
        ((None, 1), (1, 2), 1),  # a node of N-1 at an Edge of N
        ((1, 2), (1, 1), 1),  # a node of N at an Edge of N-1
        ((1, 2), (2, 3), 2),
        ((None, 1), (2, 3), None),
        ((None, 0), (1, 1), None),
        ((2, 3), (1, 1), None),
        ((None, 2), (1, 1), None),
        ((3, 2), (1, 3), None),  # no such range
    ],
)
def test_two_ends_speak_the_newest_protocol_that_both_know(
    theirs: tuple[int | None, int], ours: tuple[int, int], common: int | None
) -> None:
    """Each end names the oldest and the newest it knows; a node that names one number knows that one only."""
    said = hello(oldest_protocol=theirs[0], protocol=theirs[1])
    assert said.common_protocol(*ours) == common


def test_this_release_speaks_its_own_protocol_and_the_one_before() -> None:
    """From the second protocol on N and N-1 are spoken; with the first one there is none before."""
    assert max(1, messages.PROTOCOL - 1) == messages.OLDEST_PROTOCOL
