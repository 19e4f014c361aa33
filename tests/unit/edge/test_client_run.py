"""What a run for a client counts as, and what its client is told."""

from typing import Literal

import pytest

from iop.domain.effects import Outcome
from iop.edge.client_run import ClientRun
from iop.link.messages import End


class Noted:
    """Stands in for the work on the link; keeps why it was cancelled."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    def cancel(self, why: Literal["client", "limit"]) -> None:
        self.cancelled.append(why)


def _running() -> tuple[ClientRun, Noted]:
    work, noted = ClientRun("Node n1"), Noted()
    work.run = noted  # type: ignore[assignment]
    return work, noted


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        (End(run=1, outcome="completed"), (Outcome.COMPLETED, None)),
        (End(run=1, outcome="failed", failure="broken"), (Outcome.FAILED, "broken")),
        (End(run=1, outcome="cancelled"), (Outcome.FAILED, None)),
    ],
)
def test_a_run_left_alone_counts_as_its_end_says(end: End, verdict: tuple[Outcome, str | None]) -> None:
    """A node that cancels what nobody asked it to cancel has failed."""
    work, _ = _running()
    assert (work.verdict(end), work.stopped) == (verdict, False)


def test_a_client_that_left_makes_it_cancelled() -> None:
    """Told once, whatever comes after it; nothing is told when the work has ended already."""
    work, noted = _running()
    work.leave()
    work.leave()
    work.cut("shutting_down")
    assert noted.cancelled == ["client", "limit"]
    assert work.verdict(End(run=1, outcome="completed")) == (Outcome.CANCELLED, "client_left")
    over, quiet = _running()
    over.ended = True
    over.leave()
    over.cut("removed")
    assert (quiet.cancelled, over.stopped) == ([], False)


@pytest.mark.parametrize(
    ("well", "verdict"), [(True, (Outcome.COMPLETED, None)), (False, (Outcome.FAILED, "error_event"))]
)
def test_a_client_that_leaves_with_the_last_event_has_had_its_answer(
    well: bool, verdict: tuple[Outcome, str | None]
) -> None:
    """The work is still told, and however it ends then, the answer was what its last event says."""
    work, noted = _running()
    work.told_end(well=well)
    assert work.verdict(End(run=1, outcome="failed", failure="broken")) == (Outcome.FAILED, "broken")
    work.leave()
    assert noted.cancelled == ["client"]
    assert work.verdict(End(run=1, outcome="cancelled")) == verdict == work.result


@pytest.mark.parametrize(
    ("well", "verdict"), [(True, (Outcome.COMPLETED, None)), (False, (Outcome.FAILED, "link_lost"))]
)
def test_a_link_that_is_lost_after_the_last_event_takes_nothing_of_the_answer(
    well: bool, verdict: tuple[Outcome, str | None]
) -> None:
    """Only the node's word on the end of the work is missing; before the last event it is a failure."""
    lost = End(run=1, outcome="failed", failure="link_lost")
    work, _ = _running()
    work.told_end(well=well)
    assert (work.verdict(lost), work.is_whole) == (verdict, well)
    early, _ = _running()
    assert (early.verdict(lost), early.is_whole) == ((Outcome.FAILED, "link_lost"), False)


def test_what_it_counts_as_is_known_when_its_client_leaves() -> None:
    """The log line is written then; the end of the work, which comes later, says the same."""
    work, _ = _running()
    work.leave()
    early = work.result
    assert early == work.verdict(End(run=1, outcome="failed", failure="broken")) == (Outcome.CANCELLED, "client_left")
    served, _ = _running()
    served.verdict(End(run=1, outcome="completed"))
    served.leave()
    assert served.result == (Outcome.COMPLETED, None)


def test_a_cut_fails_with_its_reason_and_says_so() -> None:
    """The first reason stays, and is what the client reads, not the cancel that the node then tells."""
    work, noted = _running()
    work.cut("shutting_down")
    work.cut("removed")
    end = End(run=1, outcome="cancelled", failure="broken")
    assert noted.cancelled == ["limit"]
    assert work.verdict(end) == (Outcome.FAILED, "shutting_down")
    assert (work.error(end).status, work.error(end).code) == (503, "shutting_down")
    assert "Node n1" in _running()[0].error(End(run=1, outcome="failed", failure="timeout")).message
