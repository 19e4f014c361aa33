"""A case ends in words: bad verdicts, nothing judged, and addresses that do not answer all fail it."""

from pathlib import Path

import httpx
import pytest

from iop.admin.wire import AdminRefused, AdminUnreachable
from smoke.history import Blocker, History, read
from smoke.holding import blockers, hold, see
from smoke.rounds import Bench, Blocked
from smoke.view import Verdict
from tests.fakes.smoke_story import environment, inventory


def bench(folder: Path) -> Bench:
    """A bench that is only asked to record."""
    return Bench(inventory(folder), environment(), History(folder, "main"), "run", quiet_wait=0.1)


def test_good_verdicts_pass_and_bad_or_missing_ones_fail() -> None:
    """Every bad verdict is named; no verdict at all is no pass."""
    good, bad = Verdict("fine", True, ""), Verdict("law", False, "broken")
    hold([good])
    with pytest.raises(pytest.fail.Exception, match="law: broken"):
        hold([good, bad])
    with pytest.raises(pytest.fail.Exception, match="nothing was judged"):
        hold([])


def test_a_fact_is_recorded_before_it_fails(tmp_path: Path) -> None:
    """The history has the fact, so that the judge finds the same."""
    with pytest.raises(pytest.fail.Exception, match="exactly the configured models"):
        see(bench(tmp_path), "models", "models", {"ids": [], "one": "m"})

    assert len(read(tmp_path / "history-main.jsonl")) == 1


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("refused", request=httpx.Request("GET", "http://h/")),
        AdminUnreachable("http://h/ cannot be reached"),
        AdminRefused("http://h/ says no", status=404),
    ],
)
def test_an_address_that_does_not_answer_becomes_a_blocker(tmp_path: Path, error: Exception) -> None:
    """It is recorded with the address, and the case fails."""
    with pytest.raises(pytest.fail.Exception, match="blocked: http://h/"), blockers(bench(tmp_path), "models"):
        raise error

    [blocker] = read(tmp_path / "history-main.jsonl")
    assert isinstance(blocker, Blocker)
    assert blocker.reason.startswith("http://h/")


def test_a_blocker_that_is_recorded_already_is_not_recorded_twice(tmp_path: Path) -> None:
    """`Blocked` comes from who has recorded it."""
    with pytest.raises(pytest.fail.Exception, match="blocked: node n2 is offline"), blockers(bench(tmp_path), "fifo"):
        raise Blocked("node n2 is offline")

    assert not (tmp_path / "history-main.jsonl").exists()
