"""Work on a node whose client is there: it ends by itself, its client leaves it, or we cut it."""

from iop.domain.effects import Outcome
from iop.domain.errors import IopError
from iop.edge import failures
from iop.edge.links import LinkRun
from iop.link.messages import End


class ClientRun:
    """One run for one client. `who` names its provider or node for people.

    `run` is the work on the link, None before it has started; `ended` tells that it has really ended.
    What came first decides what the run counts as: the client's leaving, a cut of our own, or its own end. The last
    event of a stream (`[DONE]`, `response.completed`) is such an end, as clients leave with it, and as nothing of the
    answer is missing when the link is lost after it.
    """

    def __init__(self, who: str) -> None:
        self.run: LinkRun | None = None
        self.ended = False
        self.who = who
        self._left = False
        self._cut: str | None = None
        self._told: Outcome | None = None
        self._settled: tuple[Outcome, str | None] | None = None

    def leave(self) -> None:
        """The client is gone: `on_disconnect` decides what happens to the work; it counts until it has ended."""
        if not self.ended and not self._left:
            self._left = True
            if self.run is not None:
                self.run.cancel("client")

    def cut(self, reason: str) -> None:
        """Stop the work for a reason of our own (shutdown, removal)."""
        if not self.ended and self._cut is None:
            self._cut = reason
            if self.run is not None:
                self.run.cancel("limit")

    def made(self, response_id: str) -> None:
        """The answer is a response of this id."""

    def told_end(self, *, well: bool) -> None:
        """The answer's own last event has been sent to the client; `well`: no failure was told in it or before it."""
        self._told = Outcome.COMPLETED if well else Outcome.FAILED

    @property
    def is_whole(self) -> bool:
        """True when it has ended and counts as completed."""
        return self._settled is not None and self._settled[0] is Outcome.COMPLETED

    @property
    def stopped(self) -> bool:
        """True when its client left or we cut it, whatever end the work then came to."""
        return self._left or self._cut is not None

    @property
    def result(self) -> tuple[Outcome, str | None]:
        """What the run counts as, and why; asked when its client has been served or has left."""
        return self._settled or self._verdict_of_leaving()

    def verdict(self, end: End) -> tuple[Outcome, str | None]:
        """Return what the run counts as, and why."""
        self._settled = self._verdict_of_leaving() if self._left else self._verdict_of(end)
        return self._settled

    def _verdict_of_leaving(self) -> tuple[Outcome, str | None]:
        if self._told is not None:
            return self._told, None if self._told is Outcome.COMPLETED else "error_event"
        return Outcome.CANCELLED, "client_left"

    def _verdict_of(self, end: End) -> tuple[Outcome, str | None]:
        if self._cut is not None:
            return Outcome.FAILED, self._cut
        if end.failure == "link_lost" and self._told is Outcome.COMPLETED:
            return Outcome.COMPLETED, None
        outcome = Outcome(end.outcome)
        return Outcome.FAILED if outcome is Outcome.CANCELLED else outcome, end.failure

    def error(self, end: End) -> IopError:
        """Return what to tell the client about this end."""
        failure = self._cut or end.failure
        return failures.to_error(End(run=end.run, outcome=end.outcome, failure=failure, detail=end.detail), self.who)
