"""Rounds are repeated while they are void, longer when they were too short, and become a blocker in the end."""

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iop.admin.wire import AdminUnreachable
from smoke.history import Blocker, History, read
from smoke.rounds import FIRST_TOKENS, MOST_TOKENS, REPEATS, Bench, Blocked
from smoke.stage import Act
from smoke.view import RoundView
from tests.fakes.smoke_story import Story, burst, environment, inventory


async def nothing(_stage: Any) -> None:
    """An act that does nothing."""


class Scripted(Bench):
    """A bench whose rounds come from a list; the last one repeats. Remembers the tokens each was asked with."""

    def __init__(self, folder: Path, rounds: list[RoundView | BaseException]) -> None:
        super().__init__(inventory(folder), environment(), History(folder, "main"), "run", quiet_wait=0.1)
        self.rounds = rounds
        self.asked: list[int] = []

    async def _round(self, case: str, round_id: str, kind: str, act: Act) -> RoundView:  # type: ignore[override]
        self.asked.append(self._tokens)
        found = self.rounds[min(len(self.asked), len(self.rounds)) - 1]
        if isinstance(found, BaseException):
            raise found
        return found


def short() -> RoundView:
    """A round in which the requests did not overlap."""
    story = Story()
    for one in ("r1", "r2"):
        story.grant(one, "a")
        story.end(one)
    return story.view()


def gap() -> RoundView:
    """A round with a hole in the log."""
    view = burst().view()
    return replace(view, events=view.events[:-1])


def blockers(folder: Path) -> list[str]:
    """Reasons of the recorded blockers."""
    return [record.reason for record in read(folder / "history-main.jsonl") if isinstance(record, Blocker)]


async def test_a_good_round_is_judged_at_once(tmp_path: Path) -> None:
    """One round, its verdicts, no repeat."""
    bench = Scripted(tmp_path, [burst().view()])

    assert all(verdict.ok for verdict in await bench.prove("case", "capacity", nothing))
    assert bench.asked == [FIRST_TOKENS]


async def test_a_void_round_is_repeated_and_a_short_one_with_twice_the_tokens(tmp_path: Path) -> None:
    """Gaps repeat as they are; only missing overlap asks for longer answers, for the next case too."""
    bench = Scripted(tmp_path, [gap(), short(), burst().view()])

    assert await bench.prove("case", "capacity", nothing)
    assert bench.asked == [FIRST_TOKENS, FIRST_TOKENS, FIRST_TOKENS * 2]
    assert not (tmp_path / "history-main.jsonl").exists()


async def test_a_round_that_fails_is_not_repeated(tmp_path: Path) -> None:
    """A failure is a failure: nothing is tried until it passes."""
    view = burst().view()
    bench = Scripted(tmp_path, [replace(view, requests=view.requests[1:]), view])

    assert [v.name for v in await bench.prove("case", "capacity", nothing) if not v.ok] == ["all succeed"]
    assert len(bench.asked) == 1


async def test_after_the_last_repeat_it_is_a_blocker(tmp_path: Path) -> None:
    """Five repeats, the tokens never beyond 2,048, and the last reason is told."""
    bench = Scripted(tmp_path, [short()])

    with pytest.raises(Blocked, match="did not overlap"):
        await bench.prove("case", "capacity", nothing)
    assert len(bench.asked) == REPEATS + 1
    assert max(bench.asked) == MOST_TOKENS
    assert blockers(tmp_path)[0].startswith("6 rounds were void")


@pytest.mark.parametrize(
    "error",
    [
        AdminUnreachable("http://h cannot be reached"),
        ExceptionGroup("tasks", [AdminUnreachable("http://h cannot be reached")]),
    ],
)
async def test_an_edge_that_is_gone_is_a_blocker(tmp_path: Path, error: Exception) -> None:
    """Whether the round itself or a task beside it met the trouble."""
    with pytest.raises(Blocked, match="http://h cannot be reached"):
        await Scripted(tmp_path, [error]).prove("case", "capacity", nothing)
    assert blockers(tmp_path) == ["http://h cannot be reached"]


async def test_a_fault_of_the_suite_itself_is_no_blocker(tmp_path: Path) -> None:
    """An unexpected exception is not turned into somebody else's trouble."""
    with pytest.raises(ExceptionGroup):
        await Scripted(tmp_path, [ExceptionGroup("tasks", [ValueError("ours")])]).prove("case", "capacity", nothing)


async def test_an_address_where_nobody_listens_is_a_blocker(tmp_path: Path) -> None:
    """A real round against a port that is bound and not listening (Field case B74)."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        target = inventory(tmp_path, admin=bound.getsockname()[1])
        bench = Bench(target, environment(), History(tmp_path, "main"), "run", quiet_wait=0.1)
        with pytest.raises(Blocked):
            await bench.prove("case", "capacity", nothing)

    assert target.admin_url in blockers(tmp_path)[0]
